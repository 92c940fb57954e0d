// The inner operations, written once over vectors of floats (an extension of GCC and Clang, for any machine). An Isa gives the
// vectors' size and what the language has no word for: a fused or plain multiply-add, the decoding of halves, a transposition.
// Everything here is in an unnamed namespace: each file compiles its own copy, so that the linker never puts a function
// compiled for AVX2 in the place of the plain one.
#pragma once
#include <cstring>
#include <limits>

#include "flash.h"

namespace patchbay::flash {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

template <class Isa>
struct TileMath {
  using Vector = typename Isa::Vector;
  using Integers = typename Isa::Integers;
  static constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);

  static Vector load(const float* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }
  static Vector all(float x) { return x - Vector{}; }  // minus zero changes no bit of x
  static Vector fma(Vector a, Vector b, Vector c) { return Isa::fma(a, b, c); }

  static float largest_lane(Vector v) {
    float lanes[kLanes];
    store(lanes, v);
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (std::int64_t i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    }
    return lanes[0];
  }
  static float sum_of_lanes(Vector v) {
    float lanes[kLanes];
    store(lanes, v);
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (std::int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }

  /// (F5): e^x for x <= 0, relative error about 1e-7; 0 below the smallest normal float, NaN for NaN.
  static Vector exp(Vector x) {
    constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // ln 2 in two parts (Cody-Waite)
    constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding and taking it away rounds to an integer
    constexpr float kLowest = -87.3365448f;  // ln of the smallest normal float
    const Vector safe = x < kLowest ? all(kLowest) : x;
    const Vector n = fma(safe, all(kLog2E), all(kRounder)) - kRounder;
    const Vector r = fma(n, all(-kLn2Low), fma(n, all(-kLn2High), safe));
    Vector p = all(1.0f / 5040);  // Taylor: |r| <= ln(2)/2, so the first term left out is below 6e-9
    for (const float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
      p = fma(p, r, all(coefficient));
    const Integers exponent = (__builtin_convertvector(n, Integers) + 127) << 23;
    Vector power;
    std::memcpy(&power, &exponent, sizeof power);
    return x < kLowest ? Vector{} : p * power;
  }

  static Vector tanh(Vector x) {
    const Vector size = x < 0.0f ? -x : x, t = exp(-2.0f * size);
    const Vector far = (1.0f - t) / (1.0f + t);
    const Vector square = x * x;  // near 0, 1 - t cancels: the odd Taylor series instead, to below 1e-8
    Vector series = all(62.0f / 2835);
    for (const float coefficient : {-17.0f / 315, 2.0f / 15, -1.0f / 3, 1.0f}) series = fma(series, square, all(coefficient));
    return size < 0.25f ? x * series : (x < 0.0f ? -far : far);
  }

  /// Rows x (2 vectors): the block of c that lives in registers while depth runs.
  template <int Rows>
  static void multiply_block(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                             std::int64_t c_stride, std::int64_t depth) {
    Vector left[Rows], right[Rows];
    for (int r = 0; r < Rows; ++r) {
      left[r] = load(c + r * c_stride);
      right[r] = load(c + r * c_stride + kLanes);
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      const Vector b_left = load(b + k * b_stride), b_right = load(b + k * b_stride + kLanes);
      for (int r = 0; r < Rows; ++r) {
        const Vector x = all(a[r * a_stride + k]);
        left[r] = fma(x, b_left, left[r]);
        right[r] = fma(x, b_right, right[r]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      store(c + r * c_stride, left[r]);
      store(c + r * c_stride + kLanes, right[r]);
    }
  }

  static void multiply_add(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                           std::int64_t c_stride, std::int64_t rows, std::int64_t depth, std::int64_t cols) {
    for (std::int64_t col = 0; col < cols; col += 2 * kLanes) {
      switch (rows) {
        case 1:
          multiply_block<1>(a, a_stride, b + col, b_stride, c + col, c_stride, depth);
          break;
        case 2:
          multiply_block<2>(a, a_stride, b + col, b_stride, c + col, c_stride, depth);
          break;
        case 3:
          multiply_block<3>(a, a_stride, b + col, b_stride, c + col, c_stride, depth);
          break;
        case 4:
          multiply_block<4>(a, a_stride, b + col, b_stride, c + col, c_stride, depth);
          break;
      }
    }
  }

  static void finish_scores(float* scores, float soft_cap) {
    for (std::int64_t i = 0; i < kTile; i += kLanes) {
      Vector s = load(scores + i);
      if (soft_cap > 0) s = soft_cap * tanh(s / soft_cap);
      s = s > kLargest ? all(kLargest) : s;
      s = s < -kLargest ? all(-kLargest) : s;
      store(scores + i, s);
    }
  }

  static void softmax_step(float* scores, float& maximum, float& sum, float* output, std::int64_t cols) {
    Vector top = all(maximum);
    for (std::int64_t i = 0; i < kTile; i += kLanes) {
      const Vector s = load(scores + i);
      top = top > s ? top : s;
    }
    const float new_maximum = largest_lane(top);  // (F2)
    if (new_maximum == -kInfinity) {              // nothing seen yet: no weight at all, rather than inf - inf
      std::memset(scores, 0, kTile * sizeof(float));
      return;
    }
    Vector weights{};
    for (std::int64_t i = 0; i < kTile; i += kLanes) {
      const Vector weight = exp(load(scores + i) - new_maximum);
      store(scores + i, weight);
      weights += weight;
    }
    const float correction = exp(all(maximum - new_maximum))[0];  // 0 for the first tile, 1 while the maximum stands
    sum = sum * correction + sum_of_lanes(weights);               // (F3)
    maximum = new_maximum;
    if (correction == 1.0f) return;
    for (std::int64_t d = 0; d < cols; d += kLanes) store(output + d, load(output + d) * correction);  // (F4), its first half
  }

  static void decode(DType type, const std::byte* in, float scale, std::int64_t n, float* out) {
    if (type == DType::f32) {
      std::memcpy(out, in, n * sizeof(float));
    } else if (type == DType::f16) {
      Isa::decode_halves(reinterpret_cast<const Half*>(in), n, out);
    } else {
      const auto* codes = reinterpret_cast<const std::int8_t*>(in);
      for (std::int64_t i = 0; i < n; ++i) out[i] = scale * static_cast<float>(codes[i]);
    }
  }

  static constexpr TileKernels kernels() {
    return {2 * kLanes, decode, Isa::transpose, multiply_add, finish_scores, softmax_step};
  }
};

}  // namespace
}  // namespace patchbay::flash
