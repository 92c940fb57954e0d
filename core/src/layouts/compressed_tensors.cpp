// compressed-tensors' layout of 8-bit weights. Keys: its QuantizationConfig, as of version 0.20.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layouts/eight_bits.h"
#include "layouts/folder_layout.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

constexpr TensorType kE4M3 = {kNoTensorType, "F8_E4M3", 1, 1};

/// One scheme of config_groups.
struct Scheme {
  DType code = DType::i8;
  std::string shared;       ///< tensor, channel, group
  std::int64_t group = 0;
  std::string inputs;       ///< "": as they are; token, tensor, static
  auto operator<=>(const Scheme&) const = default;
};

std::string inputs_of(const WeightFormat& format) {
  const auto rounding = input_rounding_of(&format);
  if (!rounding) return "";
  return rounding->scale == RowRounding::Scale::token ? "token" : rounding->scale == RowRounding::Scale::tensor ? "tensor" : "static";
}

Scheme scheme_of(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  const std::vector<PartSpec> parts = format.layout(rows, cols);
  const std::vector<std::int64_t>& scales = parts.at(1).shape;
  Scheme scheme{parts.at(0).dtype, "channel", 0, inputs_of(format)};
  if (scales.size() == 2) scheme.shared = "group", scheme.group = cols / scales[1];
  else if (scales.at(0) == 1 && rows > 1) scheme.shared = "tensor";
  return scheme;
}

class CompressedTensors final : public FolderLayout {
 public:
  std::vector<ModuleOutput> announce(const std::string& module, const WeightFormat& format, std::int64_t rows, std::int64_t cols) override {
    if (!takes(format, rows, cols)) throw Error(module, "layout compressed-tensors has no place for format " + format.label(), "fp8 (variant e4m3), w8a8", "take another format or --layout");
    const Scheme scheme = scheme_of(format, rows, cols);
    modules_[scheme].insert(module);
    std::vector<ModuleOutput> out = {{"weight", scheme.code == DType::i8 ? find_tensor_type("I8") : &kE4M3, {cols, rows}, {}},
                                     {"weight_scale", find_tensor_type("F32"), {1}, {}}};
    if (scheme.shared != "tensor") out[1].shape = {scheme.shared == "group" ? cols / scheme.group : 1, rows};
    if (scheme.inputs == "static") out.push_back({"input_scale", find_tensor_type("F32"), {1}, {}});
    return out;
  }

  std::vector<ModuleOutput> tensors(const std::string& module, const LayoutWeight& weight) override {
    const std::size_t parts = weight.parts.front().packed.parts.size();
    std::vector<ModuleOutput> out(parts);
    constexpr const char* kNames[] = {"weight", "weight_scale", "input_scale"};
    for (std::size_t i = 0; i < parts; ++i) out[i].part = kNames[i];
    const std::int64_t all_rows = weight.row_order.empty() ? weight.parts.front().packed.rows : std::ssize(weight.row_order);
    for (const auto& part : weight.parts) {
      for (std::size_t i = 0; i < parts; ++i) {
        const TensorRef& values = part.packed.parts[i];
        const bool by_row = values.shape[0] == part.packed.rows && i < 2;
        if (!by_row && weight.parts.size() > 1) throw Error(module, "rows that were quantised apart have each a scale of their own", "", "scales: channel");
        out[i].bytes.append(static_cast<const char*>(values.data), static_cast<std::size_t>(values.size() * bytes_of(values.dtype)));
        if (i == 2 && *static_cast<const float*>(values.data) == 0) throw Error(module, "no calibration token reached it, so its inputs have no scale", "", "more calibration, or activations: token");
      }
    }
    if (weight.row_order.empty()) return out;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t size = out[i].bytes.size() / static_cast<std::size_t>(all_rows);
      if (i == 1 && out[i].bytes.size() == sizeof(float)) continue;
      std::string ordered;
      for (const std::int64_t row : weight.row_order) ordered.append(out[i].bytes, static_cast<std::size_t>(row) * size, size);
      out[i].bytes = std::move(ordered);
    }
    return out;
  }

  void keep(const std::string& module) override { kept_.insert(module); }

  Json config() const override {
    Json groups = Json::object(), ignore = Json::array();
    const char* format = "int-quantized";
    for (const auto& [scheme, modules] : modules_) {
      const char* type = scheme.code == DType::i8 ? "int" : "float";
      if (scheme.code != DType::i8) format = modules_.begin()->first.code == DType::i8 ? "naive-quantized" : "float-quantized";
      Json weights = {{"num_bits", 8}, {"type", type}, {"symmetric", true}, {"strategy", scheme.shared}, {"dynamic", false},
                      {"group_size", scheme.group > 0 ? Json(scheme.group) : Json()}};
      Json inputs;
      if (!scheme.inputs.empty())
        inputs = {{"num_bits", 8}, {"type", type}, {"symmetric", true}, {"strategy", scheme.inputs == "token" ? "token" : "tensor"}, {"dynamic", scheme.inputs != "static"}};
      const Json targets = modules_.size() == 1 ? Json::array({"Linear"}) : Json(modules);
      groups[fmt::format("group_{}", groups.size())] = {{"targets", targets}, {"weights", std::move(weights)}, {"input_activations", std::move(inputs)}, {"output_activations", nullptr}};
    }
    if (!has_head()) ignore.push_back("lm_head");
    for (const std::string& module : kept_) ignore.push_back(module);
    return {{"quant_method", "compressed-tensors"}, {"format", format}, {"quantization_status", "compressed"}, {"config_groups", groups}, {"ignore", ignore},
            {"kv_cache_scheme", nullptr}, {"global_compression_ratio", nullptr}};
  }

  static bool takes(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
    const std::vector<PartSpec> parts = format.layout(rows, cols);
    const bool codes = parts[0].name == "codes" && (parts[0].dtype == DType::f8_e4m3 || parts[0].dtype == DType::i8) && parts[0].shape == std::vector<std::int64_t>{rows, cols};
    return codes && parts.size() > 1 && parts[1].name == "scales" && parts[1].dtype == DType::f32;
  }

 private:
  bool has_head() const {
    return std::ranges::any_of(modules_, [](const auto& entry) { return entry.second.contains("lm_head"); });
  }
  std::map<Scheme, std::set<std::string>> modules_;
  std::set<std::string> kept_;
};

}  // namespace

std::unique_ptr<FolderLayout> compressed_tensors_layout() { return std::make_unique<CompressedTensors>(); }
bool compressed_tensors_take(const WeightFormat& format, std::int64_t rows, std::int64_t cols) { return CompressedTensors::takes(format, rows, cols); }

}  // namespace patchbay
