/// @file device_tensor.h
/// Tensors on the device for the tests of kernels: filled from floats, read back as floats, with NaN in every byte
/// between rows so that a kernel that reads there shows, and one that writes there too.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "gpu/test_device.h"
#include "patchbay/half.h"
#include "patchbay/tensor.h"

namespace patchbay::test {

/// The bytes of a value as `type` stores it.
inline void store_value(DType type, float value, std::byte* to) {
  const auto put = [&](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  switch (type) {
    case DType::f32:
      return put(value);
    case DType::f16:
      return put(to_half(value));
    case DType::bf16:
      return put(to_bfloat16(value));
    case DType::i8:
      return put(static_cast<std::int8_t>(value));
    case DType::u8:
      return put(static_cast<std::uint8_t>(value));
    case DType::i32:
      return put(static_cast<std::int32_t>(value));
    default:
      throw Error("device_tensor", "floats cannot be stored as " + std::string(name_of(type)));
  }
}
inline float load_value(DType type, const std::byte* from) {
  const auto get = [&]<class T>(T value) { return std::memcpy(&value, from, sizeof value), value; };
  switch (type) {
    case DType::f32:
      return get(float{});
    case DType::f16:
      return to_float(get(Half{}));
    case DType::bf16:
      return to_float(get(BFloat16{}));
    case DType::i8:
      return get(std::int8_t{});
    case DType::u8:
      return get(std::uint8_t{});
    case DType::i32:
      return static_cast<float>(get(std::int32_t{}));
    default:
      throw Error("device_tensor", std::string(name_of(type)) + " cannot be read as floats");
  }
}
/// What is left of a value that is stored as `type`.
inline float rounded(DType type, float value) {
  std::byte bytes[4];
  store_value(type, value, bytes);
  return load_value(type, bytes);
}
inline std::vector<float> rounded(DType type, std::vector<float> values) {
  for (float& value : values) value = rounded(type, value);
  return values;
}
/// Relative error of one rounding to the type.
inline double epsilon_of(DType type) { return type == DType::f16 ? 0x1p-11 : type == DType::bf16 ? 0x1p-8 : 0x1p-23; }

/// A tensor of rank 1 to 4 whose rows (all but the first axis) lie `gap` elements apart from one another.
class DeviceTensor {
 public:
  DeviceTensor(DType type, std::vector<std::int64_t> shape, std::int64_t gap = 0)
      : type_(type), row_(1), gap_(shape.size() > 1 ? gap : 0), bytes_(count(shape, gap) * bytes_of(type)) {
    ref_.data = bytes_.data();
    ref_.dtype = type;
    ref_.rank = static_cast<int>(shape.size());
    for (int i = ref_.rank - 1; i >= 0; --i) {
      ref_.shape[i] = shape[i];
      ref_.strides[i] = i == 0 && ref_.rank > 1 ? row_ + gap_ : row_;
      if (i > 0) row_ *= shape[i];
    }
    rows_ = ref_.rank > 1 ? shape[0] : 1;
    if (ref_.rank == 1) row_ = shape[0];
  }
  DeviceTensor(DType type, std::vector<std::int64_t> shape, const std::vector<float>& values, std::int64_t gap = 0)
      : DeviceTensor(type, shape, gap) {
    set(values);
  }

  TensorRef ref() const { return ref_; }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(bytes_.data());
  }
  void set(const std::vector<float>& values) {
    std::vector<std::byte> host(bytes_.size(), std::byte{0xFF});
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < row_; ++c) store_value(type_, values[r * row_ + c], &host[place(r, c)]);
    }
    bytes_.upload(host);
  }
  std::vector<float> values() const {
    const std::vector<std::byte> host = bytes_.host();
    std::vector<float> values;
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < row_; ++c) values.push_back(load_value(type_, &host[place(r, c)]));
    }
    return values;
  }
  /// Whether the bytes between rows are as they were.
  bool gaps_intact() const {
    const std::vector<std::byte> host = bytes_.host();
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t b = place(r, row_); b < static_cast<std::int64_t>(place(r + 1, 0)); ++b) {
        if (host[b] != std::byte{0xFF}) return false;
      }
    }
    return true;
  }

 private:
  static std::int64_t count(const std::vector<std::int64_t>& shape, std::int64_t gap) {
    std::int64_t row = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) row *= shape[i];
    return shape[0] * (shape.size() > 1 ? row + gap : row);
  }
  std::size_t place(std::int64_t r, std::int64_t c) const { return (r * (row_ + gap_) + c) * bytes_of(type_); }

  DType type_;
  std::int64_t row_, gap_, rows_ = 1;
  DeviceArray<std::byte> bytes_;
  TensorRef ref_;
};

inline std::vector<float> random_values(std::mt19937& random, std::int64_t n, float low = -1, float high = 1) {
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

/// The largest |a - b| / (1 + |b|); NaN where exactly one is NaN, or the lengths differ.
inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::nan("");
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double error = std::fabs(double{a[i]} - b[i]) / (1 + std::fabs(double{b[i]}));
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

}  // namespace patchbay::test
