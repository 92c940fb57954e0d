#include "quantize/finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <set>

#include "engine/plain_numbers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::uint32_t kFloat = 0x7F800000;  // the exponent's bits
constexpr std::int64_t kRowsAtOnce = 64, kValuesAtOnce = 1 << 16;

/// The least of the places that several threads find.
class FirstPlace {
 public:
  explicit FirstPlace(std::int64_t none) : none_(none), place_(none) {}
  void found(std::int64_t place) {
    std::int64_t known = place_;
    while (place < known && !place_.compare_exchange_weak(known, place)) {}
  }
  bool any() const { return place_ != none_; }
  std::int64_t place() const { return place_; }

 private:
  const std::int64_t none_;
  std::atomic<std::int64_t> place_;
};

/// The first of n floats whose exponent has all bits set: NaN or infinite; n: none. Without a branch for each, so that the loop is one of vectors.
template <class Bits>
std::int64_t first_bad(const std::byte* floats, std::int64_t n, Bits exponent) {
  const auto is_bad = [&](std::int64_t i) {
    Bits bits;
    std::memcpy(&bits, floats + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    return (bits & exponent) == exponent;
  };
  bool any = false;
  for (std::int64_t i = 0; i < n; ++i) any |= is_bad(i);
  for (std::int64_t i = 0; any && i < n; ++i)
    if (is_bad(i)) return i;
  return n;
}

template <class Bits>
void look_at_floats(const FileTensor& tensor, Bits exponent, Device& device, FirstPlace& first) {
  device.parallel_for(tensor.bytes / static_cast<std::int64_t>(sizeof(Bits)), kValuesAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t bad = begin + first_bad(tensor.data + begin * static_cast<std::int64_t>(sizeof(Bits)), end - begin, exponent);
    if (bad < end) first.found(bad);
  });
}

/// Values that are made of codes and scales: any scale that is not finite shows in them.
void look_at_decoded(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor, Device& device, FirstPlace& first) {
  const StoredRows stored(file, tensor);
  const std::int64_t cols = tensor.shape.at(0);
  device.parallel_for(rows_of(tensor), kRowsAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t count = (end - begin) * cols;
    std::vector<float> values(static_cast<std::size_t>(count));
    stored.read(begin, View<float, 2>(values.data(), {end - begin, cols}));
    const std::int64_t bad = first_bad(reinterpret_cast<const std::byte*>(values.data()), count, kFloat);
    if (bad < count) first.found(begin * cols + bad);
  });
}

/// @throws Error at the first value that is NaN or infinite.
void require_finite(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor, Device& device) {
  if (tensor.bytes == 0) return;
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape[0];  // a single number has no extents
  FirstPlace first(rows_of(tensor) * cols);
  const std::string_view type = tensor.module ? "" : tensor.type_name;
  if (type == "F32") look_at_floats(tensor, kFloat, device, first);
  else if (type == "F16") look_at_floats(tensor, std::uint16_t{0x7C00}, device, first);
  else if (type == "BF16") look_at_floats(tensor, std::uint16_t{0x7F80}, device, first);
  else if (!tensor.shape.empty() && (!holds_plain_numbers(tensor) || type == "F64")) look_at_decoded(file, tensor, device, first);  // integers are finite
  file->release_pages();
  if (!first.any()) return;
  throw Error("tensor " + escaped(tensor.name, 80), fmt::format("row {}, column {} is NaN or infinite", first.place() / cols, first.place() % cols), "finite weights",
              "the file is damaged or its training failed: take another");
}

/// Nothing for an architecture that is not known here, and for tensors alone.
std::optional<ModelSpec> spec_of(const ModelFile& file) {
  try {
    return read_model_spec(file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void require_finite_weights(const std::shared_ptr<const ModelFile>& file, const WeightPlan& plan, Device& device) {
  for (const FileTensor* tensor : plan.tensors()) require_finite(file, *tensor, device);
}

std::vector<std::string> check_finite(const std::shared_ptr<const ModelFile>& file, Device& device) {
  std::set<const FileTensor*> needed;
  if (const auto spec = spec_of(*file)) {
    const WeightPlan plan(*file, *spec, {});
    needed.insert(plan.tensors().begin(), plan.tensors().end());
  }
  std::vector<std::string> warnings;
  for (const FileTensor& tensor : file->tensors()) {
    if (tensor.format.empty()) continue;  // known, but not decoded here
    try {
      require_finite(file, tensor, device);
    } catch (const Error& error) {
      if (needed.contains(&tensor)) throw tensor.module ? error : error.at(escaped(file->path()));  // a module names its file itself
      warnings.push_back(fmt::format("{}: {}", error.where(), error.problem()));
    }
  }
  return warnings;
}

}  // namespace patchbay
