// patchbay quantize --model IN --out OUT [key=value ...]: a model's weights in fewer bits, as a GGUF file or a folder that others read.
//
// --json: {"out", "tensors", "quantized_tensors", "weights_bytes", "calibration": {..}, "weights": as in a record, "notes": {tensor: line}, "warnings": [..]}.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands.h"
#include "common.h"
#include "convert/output_names.h"
#include "experiment/text_table.h"
#include "experiment/weight_records.h"
#include "interrupt.h"
#include "json_text.h"
#include "patchbay/plugin.h"
#include "progress.h"
#include "quantize/write_quantized.h"

namespace patchbay::app {
namespace {

constexpr const char* kStopping = "\nstopping after this step; once more ends it at once\n";

/// The keys of weights, without this word before each. Where no quantizer is named, GGUF's blocks get searched scales, as their own tools do; a folder's formats
/// are rounded to.
RunConfig quantizing_config(const QuantizeCommandOptions& options) {
  constexpr std::string_view kWeights = "weights.";
  std::vector<std::string> assignments;
  bool quantizer = false, calibration = false;
  for (std::string assignment : options.model.assignments) {
    if (const auto equals = assignment.find('='); equals == 0 || equals == std::string::npos)
      throw Error("command line", printable(assignment) + " is no setting", "key=value with a key of weights, such as format.type=q4_k_m");
    if (assignment.starts_with(kWeights)) assignment.erase(0, kWeights.size());
    quantizer = quantizer || assignment.starts_with("quantizer=") || assignment.starts_with("quantizer.type=");
    calibration = calibration || assignment.starts_with("calibration");
    assignments.push_back(std::string(kWeights) + assignment);
  }
  if (!quantizer) assignments.insert(assignments.begin(), std::string("weights.quantizer.type=") + (names_gguf(options.out) ? "scale_search" : "rtn"));
  const RunConfig config = run_config(assignments, options.model.threads);
  if (calibration && !needs_calibration(config))
    throw Error("command line: calibration", "nothing asks for it: quantizer, format and transforms choose without looking at inputs", {},
                "leave it out, or take what does: quantizer.type=gptq, quantizer.type=scale_search quantizer.importance=calibration, transforms=[awq]");
  return config;
}

nlohmann::ordered_json as_json(const std::string& out, const WrittenModel& written) {
  nlohmann::ordered_json json = {{"out", out}, {"tensors", written.tensors}, {"quantized_tensors", written.quantized_tensors}, {"weights_bytes", written.weights_bytes}};
  if (const CalibrationSummary& summary = written.calibration; summary.samples > 0)
    json["calibration"] = {{"source", summary.source}, {"sha256", summary.sha256}, {"samples", summary.samples}, {"tokens", summary.tokens}};
  json["weights"] = formats_by_name(written.weights);
  for (const auto& [tensor, line] : written.notes) json["notes"][tensor] = line;
  json["warnings"] = written.warnings;
  return json;
}

/// By type: how many matrices, and their bits (which follow from the shape where a row or a matrix has a scale); and which stand in for a mix's type.
void print_types(const std::vector<TensorPath>& weights) {
  struct Row { int matrices = 0; double least = 0, most = 0; };
  std::map<std::pair<std::string, std::string>, Row> rows;
  for (const TensorPath& weight : weights) {
    Row& row = rows[{weight.format, weight.instead_of}];
    row.least = row.matrices ? std::min(row.least, weight.bits_per_weight) : weight.bits_per_weight;
    row.most = std::max(row.most, weight.bits_per_weight);
    ++row.matrices;
  }
  if (rows.empty()) return;
  fmt::print("{:<20} {:>9} {:>8}\n", "type", "matrices", "bits");
  for (const auto& [type, row] : rows) {
    const auto& [format, instead_of] = type;
    const std::string why = instead_of.empty() ? "" : fmt::format("  instead of {}, whose blocks divide no row here; format.strict=true refuses that", instead_of);
    const std::string least = fmt::format("{:.3f}", row.least), most = fmt::format("{:.3f}", row.most);
    fmt::print("{:<20} {:>9} {:>8}{}{}\n", format, row.matrices, least, least == most ? "" : " to " + most + ", by shape", why);
  }
}

void print_summary(const std::string& out, const WrittenModel& written) {
  constexpr std::size_t kShown = 8;  // of a model with experts there may be hundreds
  print_types(written.weights);
  if (const CalibrationSummary& summary = written.calibration; summary.samples > 0)
    fmt::print("calibration: {}, {}, {} in all\n", printable(summary.source), counted(summary.samples, "sample"), counted(summary.tokens, "token"));
  for (std::size_t i = 0; i < std::min(kShown, written.warnings.size()); ++i) fmt::print("warning: {}\n", printable(written.warnings[i]));
  if (written.warnings.size() > kShown) fmt::print("warning: {} more; --json has all\n", written.warnings.size() - kShown);
  fmt::print("{}: {} tensors, {} of them quantised, {:.1f} MB\n", printable(out), written.tensors, written.quantized_tensors, static_cast<double>(written.weights_bytes) / 1e6);
}

/// The folder of finished blocks, where there will be any.
void require_folder_or_nothing(const std::string& kept) {
  if (std::filesystem::exists(kept) && !std::filesystem::is_directory(kept))
    throw Error(printable(kept), "is a file, and finished blocks are to be kept in a folder of this name", {}, "remove or rename it, or give another OUT");
}

}  // namespace

int quantize(const QuantizeCommandOptions& options) {
  const RunConfig config = quantizing_config(options);
  const auto file = ModelFile::open(find_model(options.model.model));
  check_model(*file);
  const auto backend = make<Backend>(config.backend);
  TerminalProgress progress(options.quiet);
  WriteOptions write;
  write.force = options.force;
  write.layout = options.layout;
  const std::string kept = options.out + ".partial";
  if (needs_walk(config)) {
    require_folder_or_nothing(kept);
    write.quantize.folder = kept;
  }
  write.quantize.progress = [&](double fraction, const std::string& what) {
    throw_if_interrupted();
    progress.doing_evenly(fraction, what);
  };
  write.quantize.note = [&](const std::string& line) { progress.note(line); };
  WrittenModel written;
  try {
    const InterruptGuard guard(kStopping);
    written = write_quantized(file, config, backend->ops(), options.out, write);
  } catch (const Interrupted&) {
    progress.clear();
    fmt::print(stderr, "{}\n", needs_walk(config) ? fmt::format("stopped: the finished blocks are kept in {}; the same command goes on from there", printable(kept))
                                                  : fmt::format("stopped: {} was not written", printable(options.out)));
    return 128 + interrupt_signal();
  }
  progress.clear();
  if (std::error_code ignored; std::filesystem::is_directory(kept, ignored)) std::filesystem::remove_all(kept, ignored);
  if (options.model.json) {
    fmt::print("{}\n", json_text(as_json(options.out, written)));
    return 0;
  }
  print_summary(options.out, written);
  return 0;
}

}  // namespace patchbay::app
