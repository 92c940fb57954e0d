// For tests of the products y(T,R) = x(T,C) w(R,C)^T on the device: a problem with its answer in fp64, and a run of one kernel.
#pragma once
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gpu/test_device.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/gpu/host.h"
#include "patchbay/gpu/matmul.h"
#include "patchbay/half.h"

namespace patchbay::test {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
/// Numbers as they are stored in `type`, and back.
inline Bytes stored_as(DType type, const std::vector<float>& values) {
  if (type == DType::f32) return bytes_of(values);
  std::vector<std::uint16_t> bits;
  for (float v : values) bits.push_back(type == DType::f16 ? to_half(v).bits : to_bfloat16(v).bits);
  return bytes_of(bits);
}
inline float number_at(DType type, const Bytes& bytes, std::size_t i) {
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + 2 * i, 2);
  return type == DType::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
}
inline float rounded_to(DType type, float value) { return number_at(type, stored_as(type, {value}), 0); }

inline std::vector<float> normal_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

/// x has numbers of its type; w is what the format decodes.
struct MatmulProblem {
  int tokens, rows, cols;
  DType x_type;
  std::vector<float> x, w;
  std::vector<Bytes> parts;  ///< the weight as its format stores it

  MatmulProblem(int t, int r, int c, DType type)
      : tokens(t), rows(r), cols(c), x_type(type), x(normal_numbers(static_cast<std::size_t>(t) * c, 17u * t + c)) {
    for (float& v : x) v = rounded_to(type, v);
  }
  /// The first n tokens alone.
  MatmulProblem first(int n) const {
    MatmulProblem part = *this;
    part.tokens = n;
    part.x.resize(static_cast<std::size_t>(n) * cols);
    return part;
  }
};

/// Runs `launch(args, stream)` on the device, all memory beyond the arrays out of bounds, y and all padding NaN before.
template <class Launch>
std::vector<float> run_matmul(const MatmulProblem& p, MatmulKernel kernel, DType y_type, Launch launch) {
  const DeviceArray<std::byte> x(stored_as(p.x_type, p.x), "x");
  const DeviceArray<std::byte> y(static_cast<std::size_t>(p.tokens) * p.rows * bytes_of(y_type), "y");
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> parts;
  MatmulArgs args{kernel, x.data(), p.x_type, {}, y.data(), y_type, p.tokens, p.rows, p.cols};
  for (std::size_t i = 0; i < p.parts.size(); ++i) {
    parts.push_back(std::make_unique<DeviceArray<std::byte>>(p.parts[i], "weights"));
    args.parts[i] = parts[i]->data();
  }
  launch(args, gpu::Stream{});
  const Bytes bytes = y.host();
  std::vector<float> values(static_cast<std::size_t>(p.tokens) * p.rows);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number_at(y_type, bytes, i);
  return values;
}

/// Against fp64. Tensor cores see weights rounded to x's type. fp32 sums of up to 512 products err by far less than 2e-6 of the
/// sum of magnitudes; a 16-bit y by half a unit of its last place more.
inline void check_matmul(const MatmulProblem& p, MatmulKernel kernel, DType y_type, const std::vector<float>& y) {
  const double last_place = y_type == DType::f32 ? 0 : y_type == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (int t = 0; t < p.tokens; ++t)
    for (int r = 0; r < p.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int c = 0; c < p.cols; ++c) {
        const float w = p.w[static_cast<std::size_t>(r) * p.cols + c];
        const double product = static_cast<double>(p.x[static_cast<std::size_t>(t) * p.cols + c]) *
                               (kernel == MatmulKernel::tensor_core ? rounded_to(p.x_type, w) : w);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double got = y[static_cast<std::size_t>(t) * p.rows + r],
                   allowed = 2e-6 * magnitude + last_place * std::fabs(sum) + 0x1p-24;
      if (!(std::fabs(got - sum) <= allowed)) {
        INFO("y(" << t << "," << r << ") of " << p.tokens << " x " << p.rows << " x " << p.cols << ", kernel "
                  << static_cast<int>(kernel));
        CHECK(got == Approx(sum).margin(allowed));
        return;
      }
    }
  SUCCEED("every y");
}

}  // namespace patchbay::test
