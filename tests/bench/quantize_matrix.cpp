// quantize_matrix: one matrix through a quantizer onto a format, for comparison with other programs.
//
//   quantize_matrix ROWS COLUMNS WEIGHTS IMPORTANCE|- OUT  (FORMAT QUANTIZER)...
//
// WEIGHTS: fp32, row by row; IMPORTANCE: fp32, one per column. For each pair OUT.FORMAT.QUANTIZER gets the packed parts one after the other, and
// OUT.FORMAT.QUANTIZER.f32 the decoded weights. Prints the processor time of each in nanoseconds per weight.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace {

using namespace patchbay;

std::vector<float> read_floats(const std::string& path, std::size_t count) {
  std::vector<float> values(count);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  if (!in) throw Error(path, "does not hold " + std::to_string(count) + " floats");
  return values;
}

void write(const std::string& path, const std::vector<TensorRef>& parts) {
  std::ofstream out(path, std::ios::binary);
  for (const TensorRef& part : parts) {
    const std::int64_t bytes = part.shape[0] * part.strides[0] * bytes_of(part.dtype);
    out.write(static_cast<const char*>(part.data), bytes);
  }
  if (!out.flush()) throw Error(path, "cannot be written");
}

int run(const std::vector<std::string>& args) {
  const std::int64_t rows = std::stoll(args.at(0)), cols = std::stoll(args.at(1));
  std::vector<float> weights = read_floats(args.at(2), static_cast<std::size_t>(rows * cols)), importance, decoded(weights.size());
  Statistics statistics;
  if (args.at(3) != "-") {
    importance = read_floats(args.at(3), static_cast<std::size_t>(cols));
    statistics.tokens = 1;
    statistics.second_moment = {importance.data(), {cols}};
  }
  const auto backend = make<Backend>({"cpu", nullptr});
  Settings settings;
  settings.kind = Settings::Kind::map;
  if (!importance.empty()) {
    settings.entries.emplace_back("importance", Settings());
    settings.entries.back().second.kind = Settings::Kind::scalar;
    settings.entries.back().second.text = "calibration";
  }
  for (std::size_t i = 5; i + 1 < args.size(); i += 2) {
    const auto format = make<WeightFormat>({args[i], nullptr});
    const bool takes_importance = args[i + 1] == "scale_search" && !importance.empty();
    const auto quantizer = make<Quantizer>({args[i + 1], takes_importance ? std::make_shared<const Settings>(settings) : nullptr});
    PackedWeight packed = format->allocate("w", rows, cols, backend->device());
    const std::clock_t begin = std::clock();
    quantizer->quantize(View<const float, 2>(weights.data(), {rows, cols}), statistics, *format, backend->device(), packed);
    const double nanoseconds = 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / static_cast<double>(rows * cols);
    format->decode(packed, 0, {decoded.data(), {rows, cols}});
    const std::string name = args.at(4) + "." + args[i] + "." + args[i + 1];
    write(name, packed.parts);
    write(name + ".f32", {View<float, 2>(decoded.data(), {rows, cols})});
    std::printf("%s %s %.1f\n", args[i].c_str(), args[i + 1].c_str(), nanoseconds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quantize_matrix: %s\n", error.what());
    return 1;
  }
}
