#include "quantize/write_quantized.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "convert/output_names.h"
#include "engine/weights.h"
#include "patchbay/plugin.h"
#include "quantize/finite_weights.h"
#include "quantize/output_formats.h"
#include "quantize/sensitivity_scan.h"
#include "quantize/write_folder.h"
#include "quantize/write_gguf.h"
#include "session.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// About as many as the model will have: matrices as they are planned, the rest as stored.
std::int64_t planned_bytes(const ModelFile& file, const RunConfig& config) {
  const auto planned = planned_weights(file, config);
  double bytes = 0;
  for (const FileTensor& tensor : file.tensors()) {
    const auto found = planned.find(std::string(tensor.name));
    bytes += found == planned.end() ? static_cast<double>(tensor.bytes)
                                    : found->second.bits_per_weight / 8 * static_cast<double>(rows_of(tensor) * tensor.shape.at(0));
  }
  return static_cast<std::int64_t>(bytes);
}

/// A candidate for bits by sensitivity that the output has no place for would be found out after the scan.
void require_candidates_held(const ModelFile& file, const RunConfig& config, bool gguf) {
  const WeightPlan plan(file, read_model_spec(file), config);
  const auto in_block = [](const WeightPlan::Matrix& matrix) { return matrix.label.starts_with("blk."); };
  const auto matrix = std::ranges::find_if(plan.matrices(), in_block);
  for (const PluginSpec& candidate : config.sensitivity.candidates) {
    const auto format = make<WeightFormat>(candidate);
    const OutputFormat output{*format, "weights.bits_by_sensitivity.candidates", {}};
    gguf ? require_gguf_holds(output, matrix->rows, matrix->cols) : require_folder_holds(output, matrix->rows, matrix->cols);
  }
}

}  // namespace

void require_room(const std::string& target, std::int64_t bytes) {
  const std::filesystem::path parent = std::filesystem::path(target).parent_path(), folder = parent.empty() ? "." : parent;
  if (::access(folder.c_str(), W_OK) != 0) throw Error(escaped(target, 300), std::string("no file can be made beside it: ") + std::strerror(errno), "", "name another place");
  const auto free = static_cast<double>(std::filesystem::space(folder).available);
  if (free >= static_cast<double>(bytes)) return;
  throw Error(escaped(target, 300), fmt::format("about {:.1f} MB will be written, and {:.1f} MB are free", static_cast<double>(bytes) / 1e6, free / 1e6), "",
              "make room, or name another place");
}

void check_quantizing(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& target) {
  const WeightPlan plan(*file, read_model_spec(*file), config);
  check_weights(*file, plan, config);
  check_calibration(*file, config);
  check_candidates(*file, config);
  require_room(target, planned_bytes(*file, config) * (needs_walk(config) ? 2 : 1));  // finished blocks lie beside it until all is written
  require_finite_weights(file, plan, ops.device());
}

WrittenModel write_quantized(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out,
                             const WriteOptions& options) {
  const bool gguf = names_gguf(out);
  if (gguf && !options.layout.empty()) throw Error("--layout", "is for folders, and OUT is a GGUF file", "", "leave it out, or give a folder's name");
  if (config.sensitivity.on()) {  // before the scan; each writer does so itself
    gguf ? gguf_target(*file, out, options.force) : folder_target(*file, out, options.force);
    check_quantizing(file, config, ops, out);
    require_candidates_held(*file, config, gguf);
  }
  const ResolvedRun run = with_bits_by_sensitivity(file, config, options.quantize);
  WrittenModel written = (gguf ? write_quantized_gguf(file, run.config, ops, out, options) : write_quantized_folder(file, run.config, ops, out, options));
  if (written.weights.empty())
    for (const auto& [name, weight] : planned_weights(*file, run.config)) written.weights.push_back(weight);
  written.notes.insert(written.notes.begin(), run.notes.begin(), run.notes.end());
  if (written.calibration.samples == 0) written.calibration = run.calibration;
  return written;
}

}  // namespace patchbay
