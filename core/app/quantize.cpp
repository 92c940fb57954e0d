// patchbay quantize --model IN --out OUT [key=value ...]: a model's weights in fewer bits, as a GGUF file or a folder that others read.
//
// --json: {"out", "tensors", "quantized_tensors", "weights_bytes", "calibration": {..}, "notes": {tensor: line}, "warnings": [..]}.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "interrupt.h"
#include "json_text.h"
#include "patchbay/plugin.h"
#include "progress.h"
#include "quantize/write_quantized.h"

namespace patchbay::app {
namespace {

/// The keys of weights, without this word before each. A format alone is rounded to.
RunConfig quantizing_config(const QuantizeCommandOptions& options) {
  std::vector<std::string> assignments;
  bool quantizer = false;
  for (const std::string& assignment : options.model.assignments) {
    assignments.push_back("weights." + assignment);
    quantizer = quantizer || assignment.starts_with("quantizer");
  }
  if (!quantizer) assignments.insert(assignments.begin(), "weights.quantizer.type=rtn");
  return run_config(assignments, options.model.threads);
}

nlohmann::ordered_json as_json(const std::string& out, const WrittenModel& written) {
  nlohmann::ordered_json json = {{"out", out}, {"tensors", written.tensors}, {"quantized_tensors", written.quantized_tensors}, {"weights_bytes", written.weights_bytes}};
  if (const CalibrationSummary& summary = written.calibration; summary.samples > 0)
    json["calibration"] = {{"source", summary.source}, {"sha256", summary.sha256}, {"samples", summary.samples}, {"tokens", summary.tokens}};
  for (const auto& [tensor, line] : written.notes) json["notes"][tensor] = line;
  json["warnings"] = written.warnings;
  return json;
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
  if (needs_walk(config)) write.quantize.folder = kept;
  write.quantize.progress = [&](double fraction, const std::string& what) {
    throw_if_interrupted();
    progress.doing(fraction, what);
  };
  write.quantize.note = [&](const std::string& line) { progress.note(line); };
  WrittenModel written;
  try {
    const InterruptGuard guard;
    written = write_quantized(file, config, backend->ops(), options.out, write);
  } catch (const Interrupted&) {
    progress.clear();
    if (needs_walk(config)) fmt::print(stderr, "stopped: the finished blocks are kept in {}; the same command goes on from there\n", printable(kept));
    return 128 + interrupt_signal();
  }
  progress.clear();
  std::error_code ignored;
  std::filesystem::remove_all(kept, ignored);
  if (options.model.json) {
    fmt::print("{}\n", json_text(as_json(options.out, written)));
    return 0;
  }
  fmt::print("{}: {} tensors, {} of them quantised, {:.1f} MB\n", printable(options.out), written.tensors, written.quantized_tensors,
             static_cast<double>(written.weights_bytes) / 1e6);
  return 0;
}

}  // namespace patchbay::app
