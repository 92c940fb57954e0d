#include "experiment/weight_records.h"

#include <map>
#include <tuple>
#include <vector>

namespace patchbay {
namespace {

/// "blk.*.attn_q" and 3 of "blk.3.attn_q.weight"; layer -1 outside of the blocks.
std::pair<std::string, int> name_and_layer(std::string tensor) {
  constexpr std::string_view kBlock = "blk.", kWeight = ".weight";
  if (const auto at = tensor.find(kWeight); at != std::string::npos) tensor.erase(at, kWeight.size());
  if (!tensor.starts_with(kBlock)) return {tensor, -1};
  const auto end = tensor.find('.', kBlock.size());
  if (end == std::string::npos) return {tensor, -1};
  const int layer = std::stoi(tensor.substr(kBlock.size(), end - kBlock.size()));
  return {"blk.*" + tensor.substr(end), layer};
}

/// "0-3, 7" of 0, 1, 2, 3, 7.
std::string ranges(const std::vector<int>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[i]) + (last > i ? "-" + std::to_string(layers[last]) : "");
    i = last + 1;
  }
  return text;
}

}  // namespace

Json formats_by_name(std::span<const TensorPath> tensors) {
  using Held = std::tuple<std::string, double, std::string>;  // format, bits, instead of
  std::map<std::string, std::map<Held, std::vector<int>>> found;
  std::vector<std::string> order;
  for (const TensorPath& tensor : tensors) {
    const auto [name, layer] = name_and_layer(tensor.tensor);
    if (!found.contains(name)) order.push_back(name);
    found[name][{tensor.format, tensor.bits_per_weight, tensor.instead_of}].push_back(layer);
  }
  Json json = Json::object();
  for (const std::string& name : order) {
    for (const auto& [held, layers] : found[name]) {
      const auto& [format, bits, instead_of] = held;
      Json entry = {{"format", format}, {"bits_per_weight", bits}};
      if (!instead_of.empty()) entry["instead_of"] = instead_of;
      if (found[name].size() > 1) entry["layers"] = ranges(layers);
      json[name].push_back(entry);
    }
  }
  return json;
}

Json quantization_json(const QuantizationReport& report) {
  Json json = Json::object();
  const CalibrationSummary& calibration = report.calibration;
  if (calibration.samples > 0)
    json["calibration"] = {{"source", calibration.source}, {"sha256", calibration.sha256}, {"samples", calibration.samples}, {"tokens", calibration.tokens}};
  for (const auto& [tensor, line] : report.notes) json["notes"][tensor] = line;
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  return json;
}

}  // namespace patchbay
