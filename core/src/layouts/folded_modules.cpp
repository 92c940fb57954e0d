#include "layouts/folded_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config.h"
#include "layouts/allocated_parts.h"
#include "layouts/eight_bits.h"
#include "layouts/integer_layout.h"
#include "layouts/module_tensors.h"
#include "layouts/quantization_config.h"
#include "patchbay/plugin.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// A module of integers with scales and zero points.
class IntegerModule final : public FoldedModule {
 public:
  IntegerModule(ModuleTensors tensors, const QuantizationConfig& config, const IntegerLayout& layout)
      : tensors_(std::move(tensors)), config_(config), layout_(layout), shape_(layout.describe(tensors_, config)), name_(tensors_.name() + ".weight"),
        type_(fmt::format("{} {}-bit", layout.name(), shape_.bits)) {
    const std::string settings = fmt::format("{{bits: {}, group_size: {}, symmetric: {}, column_order: {}}}", shape_.bits, shape_.group == shape_.cols ? -1 : shape_.group,
                                             config.symmetric, !shape_.order.empty());
    format_ = {"int_grouped", std::make_shared<const Settings>(parse_value(settings, config.where))};
  }

  const PluginSpec& format() const override { return format_; }

  PackedWeight read(std::int64_t first_row, std::int64_t rows) const override {
    IntegerCodes codes = shape_;
    codes.rows = rows;
    layout_.read(tensors_, config_, first_row, codes);
    const auto format = make<WeightFormat>(format_);
    PackedWeight w = allocated_parts(*format, name_, rows, codes.cols);
    try {
      dynamic_cast<const HoldsIntegerCodes&>(*format).store_integer_codes(codes, w);
    } catch (const Error& error) {
      tensors_.fail("qzeros", error.problem(), error.allowed(), "\"sym\": false in quantization_config");
    }
    return w;
  }

  FileTensor tensor(std::shared_ptr<const PackedModule> self) const override {
    FileTensor tensor;
    tensor.name = name_;
    tensor.type = kNoTensorType;
    tensor.type_name = type_;
    tensor.format = format_.type;
    tensor.shape = {shape_.cols, shape_.rows};
    tensor.bytes = tensors_.bytes();
    tensor.module = std::move(self);
    return tensor;
  }

 private:
  ModuleTensors tensors_;
  QuantizationConfig config_;
  const IntegerLayout& layout_;
  IntegerCodes shape_;
  std::string name_, type_;
  PluginSpec format_;
};

/// "X" and "qweight" of "X.qweight".
std::pair<std::string, std::string_view> split(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == name.npos) return {std::string(name), {}};
  return {std::string(name.substr(0, dot)), name.substr(dot + 1)};
}

/// Whether such a part says that its module is quantised.
bool is_part(std::string_view part, bool integers) {
  constexpr std::string_view kIntegers[] = {"qweight", "qzeros", "scales", "g_idx"}, kEightBits[] = {"weight_scale", "weight_scale_inv", "weight_zero_point", "input_scale"};
  return integers ? std::ranges::find(kIntegers, part) != std::end(kIntegers) : std::ranges::find(kEightBits, part) != std::end(kEightBits);
}

}  // namespace

std::vector<FileTensor> folded_modules(const std::string& folder, std::vector<FileTensor> tensors) {
  const auto config = read_quantization_config(folder);
  if (!config) return tensors;
  const IntegerLayout* layout = integer_layout(*config);
  std::map<std::string, ModuleTensors> modules;
  for (const FileTensor& tensor : tensors) {
    const auto [module, part] = split(tensor.name);
    if (is_part(part, layout)) modules.try_emplace(module, escaped(folder), module).first->second.add(part, tensor);
  }
  std::vector<FileTensor> folded;
  for (const FileTensor& tensor : tensors) {
    const auto [module, part] = split(tensor.name);
    if (is_part(part, layout)) continue;
    const auto found = layout || part != "weight" ? modules.end() : modules.find(module);
    if (found == modules.end()) folded.push_back(tensor);
    else found->second.add(part, tensor);
  }
  for (auto& [name, parts] : modules) {
    std::shared_ptr<const FoldedModule> module;
    if (layout) module = std::make_shared<const IntegerModule>(std::move(parts), *config, *layout);
    else module = read_eight_bits(std::move(parts), *config);
    folded.push_back(module->tensor(module));
  }
  return folded;
}

}  // namespace patchbay
