#include "layouts/eight_bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "config.h"
#include "layouts/allocated_parts.h"
#include "patchbay/plugin.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// Of formats fp8 and w8a8, whose parts these are.
class EightBits final : public FoldedModule {
 public:
  EightBits(ModuleTensors tensors, const QuantizationConfig& config) : tensors_(std::move(tensors)), name_(tensors_.name() + ".weight") {
    const FileTensor& weight = tensors_.at("weight", {"F8_E4M3", "I8"}, 2);
    is_float_ = weight.type_name == "F8_E4M3";
    cols_ = weight.shape[0];
    rows_ = weight.shape[1];
    scale_part_ = tensors_.find("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
    if (!tensors_.find(scale_part_)) tensors_.fail("weight_scale", "missing tensor: the weight is stored in 8 bits", "", "fetch the folder again");
    read_scale_shape(*tensors_.find(scale_part_));
    require_no_zero_points();
    std::string settings = is_float_ ? "variant: e4m3, " : "";
    settings += "scales: " + shared_ + (shared_ == "group" ? fmt::format(", group_size: {}", cols_ / groups_) : "");
    settings += ", activations: " + activations(config);
    format_ = {is_float_ ? "fp8" : "w8a8", std::make_shared<const Settings>(parse_value("{" + settings + "}", config.where))};
  }

  const PluginSpec& format() const override { return format_; }

  PackedWeight read(std::int64_t first_row, std::int64_t rows) const override {
    const auto format = make<WeightFormat>(format_);
    PackedWeight w = allocated_parts(*format, name_, rows, cols_);
    const std::byte* const codes = tensors_.find("weight")->data + first_row * cols_;
    if (is_float_) require_numbers(codes, first_row, rows);
    std::memcpy(w.parts.at(0).data, codes, static_cast<std::size_t>(rows * cols_));
    float* const scales = static_cast<float*>(w.parts.at(1).data);
    const std::int64_t scale_rows = shared_ == "tensor" ? 1 : rows;
    for (std::int64_t r = 0; r < scale_rows; ++r)
      for (std::int64_t g = 0; g < groups_; ++g) scales[r * groups_ + g] = scale(scale_part_, (first_row + r) / rows_of_block_ * groups_ + g);
    if (w.parts.size() > 2) *static_cast<float*>(w.parts[2].data) = scale("input_scale", 0);
    return w;
  }

  FileTensor tensor(std::shared_ptr<const PackedModule> self) const override {
    FileTensor tensor;
    tensor.name = name_;
    tensor.type = kNoTensorType;
    tensor.type_name = is_float_ ? "F8_E4M3 scaled" : "I8 scaled";
    tensor.format = format_.type;
    tensor.shape = {cols_, rows_};
    tensor.bytes = tensors_.bytes();
    tensor.module = std::move(self);
    return tensor;
  }

 private:
  /// E4M3 has one code of each sign that is no number.
  void require_numbers(const std::byte* codes, std::int64_t first_row, std::int64_t rows) const {
    const std::byte* const end = codes + rows * cols_;
    const std::byte* const bad = std::find_if(codes, end, [](std::byte code) { return (code & std::byte{0x7F}) == std::byte{0x7F}; });
    if (bad == end) return;
    const std::int64_t place = first_row * cols_ + (bad - codes);
    tensors_.fail("weight", fmt::format("row {}, column {} is NaN", place / cols_, place % cols_), "finite weights", "the checkpoint is damaged: quantise the model again");
  }

  float scale(const char* part, std::int64_t index) const {
    const float value = tensors_.number(part, index);
    if (!(value > 0)) tensors_.fail(part, fmt::format("value {} is {}", index, value), "scales above 0", "the checkpoint is damaged: quantise the model again");
    return value;
  }

  void read_scale_shape(const FileTensor& scales) {
    const std::int64_t count = tensors_.count(scale_part_, {"F32", "F16", "BF16"});
    const bool matrix = scales.shape.size() == 2;
    if (scale_part_ == std::string_view("weight_scale_inv")) {
      constexpr std::int64_t kBlock = 128;
      if (cols_ % kBlock != 0) tensors_.fail(scale_part_, fmt::format("blocks of {} do not divide {} columns", kBlock, cols_), "columns that are a multiple of 128");
      tensors_.require_shape(scale_part_, {cols_ / kBlock, (rows_ + kBlock - 1) / kBlock}, "weight, in blocks of 128 x 128");
      shared_ = "group";
      groups_ = cols_ / kBlock;
      rows_of_block_ = kBlock;
    } else if (count == 1) {
      shared_ = "tensor";
    } else if (count == rows_ && (!matrix || scales.shape[0] == 1)) {
      shared_ = "channel";
    } else if (is_float_ && matrix && count > 0 && scales.shape[1] == rows_ && cols_ % scales.shape[0] == 0) {
      shared_ = "group";
      groups_ = scales.shape[0];
    } else {
      tensors_.fail(scale_part_, fmt::format("tensor shape mismatch: {} scales for a weight of {} x {}", count, rows_, cols_), is_float_ ? "1, one for each row, or for each group of a row" : "1, or one for each row");
    }
  }

  void require_no_zero_points() const {
    const FileTensor* zeros = tensors_.find("weight_zero_point");
    if (zeros && std::any_of(zeros->data, zeros->data + zeros->bytes, [](std::byte byte) { return byte != std::byte{0}; }))
      tensors_.fail("weight_zero_point", "is not 0: asymmetric weights of 8 bits are not read", "symmetric: true");
  }

  /// How inputs are rounded, by the group of config_groups that names this module.
  std::string activations(const QuantizationConfig& config) const {
    if (tensors_.find("input_scale")) return "static";
    const nlohmann::json* inputs = config.inputs_of(tensors_.name());
    if (!inputs && is_float_) return "none";
    if (!inputs) throw Error(config.where + ": input_activations", "is missing: int8 weights are read where inputs are rounded to int8 too", "strategy token or tensor");
    if (!inputs->is_object()) throw Error(config.where + ": input_activations", "is no object");
    const std::string strategy = inputs->value("strategy", std::string("tensor"));
    if (strategy != "token" && strategy != "tensor") throw Error(config.where + ": input_activations: strategy", "\"" + escaped(strategy, 40) + "\" is not read", "token, tensor");
    if (!inputs->value("dynamic", false)) tensors_.fail("input_scale", "missing tensor: quantization_config has inputs rounded by one scale", "", "fetch the folder again");
    return strategy;
  }

  ModuleTensors tensors_;
  std::string name_;
  bool is_float_ = false;
  std::int64_t rows_ = 0, cols_ = 0, groups_ = 1, rows_of_block_ = 1;
  const char* scale_part_ = "weight_scale";
  std::string shared_;  ///< as the formats call it: tensor, channel, group
  PluginSpec format_;
};

}  // namespace

std::shared_ptr<const FoldedModule> read_eight_bits(ModuleTensors tensors, const QuantizationConfig& config) {
  return std::make_shared<const EightBits>(std::move(tensors), config);
}

}  // namespace patchbay
