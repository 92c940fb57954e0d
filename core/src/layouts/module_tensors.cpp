#include "layouts/module_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "patchbay/half.h"
#include "utf8.h"

namespace patchbay {
namespace {

std::string shown(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape.rbegin(), shape.rend(), ", ")); }

float float_at(const FileTensor& tensor, std::int64_t index) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, tensor.data + index * static_cast<std::int64_t>(sizeof value), sizeof value);
    return value;
  };
  if (tensor.type_name == "F16") return to_float(read(Half()));
  if (tensor.type_name == "BF16") return to_float(read(BFloat16()));
  return read(0.0f);
}

}  // namespace

const FileTensor* ModuleTensors::find(std::string_view part) const {
  const auto found = parts_.find(part);
  return found == parts_.end() ? nullptr : &found->second;
}

void ModuleTensors::fail(std::string_view part, std::string problem, std::string allowed, std::string remedy) const {
  throw Error(fmt::format("{}: tensor '{}.{}'", file_, escaped(name_, 80), part), std::move(problem), std::move(allowed), std::move(remedy));
}

const FileTensor& ModuleTensors::at(std::string_view part, std::initializer_list<std::string_view> types, std::size_t extents) const {
  count(part, types);
  const FileTensor& tensor = *find(part);
  if (tensor.shape.size() != extents || tensor.bytes == 0) fail(part, fmt::format("tensor shape mismatch: {}", shown(tensor.shape)), fmt::format("{} extents above 0", extents));
  return tensor;
}

std::int64_t ModuleTensors::count(std::string_view part, std::initializer_list<std::string_view> types) const {
  const FileTensor* tensor = find(part);
  if (!tensor) fail(part, "missing tensor: the module has others of its layout", "", "fetch the folder again, or correct quantization_config");
  if (std::ranges::find(types, tensor->type_name) == types.end()) fail(part, fmt::format("is of type {}", tensor->type_name), fmt::format("{}", fmt::join(types, ", ")));
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor->shape) count *= extent;
  return count;
}

void ModuleTensors::require_shape(std::string_view part, std::initializer_list<std::int64_t> shape, std::string_view why) const {
  const FileTensor* tensor = find(part);
  if (tensor && std::ranges::equal(tensor->shape, shape)) return;
  fail(part, fmt::format("tensor shape mismatch: {}", tensor ? shown(tensor->shape) : "missing"), fmt::format("{} by {}", shown(shape), why),
       "correct quantization_config, or fetch the folder again");
}

std::int64_t ModuleTensors::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [part, tensor] : parts_) bytes += tensor.bytes;
  return bytes;
}

float ModuleTensors::number(std::string_view part, std::int64_t index) const {
  const float value = float_at(*find(part), index);
  if (!std::isfinite(value)) fail(part, fmt::format("value {} is {}", index, value), "finite scales", "the checkpoint is damaged: quantise the model again");
  return value;
}

Half ModuleTensors::scale(std::string_view part, std::int64_t index) const {
  const float value = number(part, index);
  const Half half = to_half(value);
  if (std::isinf(to_float(half))) fail(part, fmt::format("value {} is {}, too large for f16", index, value), "up to 65504");
  return half;
}

}  // namespace patchbay
