// Kernel set "plain": the definition of every operation, as the formulas of README.md read.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>

#include "elementwise.h"
#include "kernels.h"
#include "patchbay/half.h"

namespace patchbay::cpu {
namespace {

/// n values as an xtensor array, without a copy.
template <class T>
auto array(T* values, std::int64_t n) {
  const std::array<std::size_t, 1> shape = {static_cast<std::size_t>(n)};
  return xt::adapt(values, shape[0], xt::no_ownership(), shape);
}

// (B1)
void quantize(const float* x, std::int64_t cols, std::int8_t* codes, float* scales, std::int32_t* sums) {
  for (std::int64_t block = 0; block * kBlock < cols; ++block) {
    const std::int64_t first = block * kBlock;
    const auto values = array(x + first, std::min<std::int64_t>(kBlock, cols - first));
    const auto rounded = array(codes + first, kBlock);
    const bool finite = xt::all(xt::isfinite(values));
    const float largest = finite ? xt::amax(xt::abs(values))() : std::numeric_limits<float>::quiet_NaN();
    const float inverse = 127.0f / largest;
    const bool usable = std::isfinite(inverse);  // else not finite, all zero, or too small to divide by
    scales[block] = usable || !finite ? largest / 127.0f : 0.0f;
    std::fill_n(codes + first, kBlock, std::int8_t{0});  // the last block's padding, too
    if (usable) std::transform(values.begin(), values.end(), codes + first, [&](float v) { return std::nearbyint(v * inverse); });
    sums[block] = xt::sum<std::int32_t>(rounded)();
  }
}

// (B2), summed in double.
void rms_norm(const float* x, const float* weight, std::int64_t cols, float epsilon, float* out) {
  const auto row = array(x, cols);
  const double mean_square = xt::mean(xt::square(xt::cast<double>(row)))();
  const float factor = static_cast<float>(1.0 / std::sqrt(mean_square + epsilon));
  xt::noalias(array(out, cols)) = row * factor * array(weight, cols);
}

// (B4): both gates are g times a sigmoid.
void gated(Gate kind, const float* g, const float* up, std::int64_t n, float* out) {
  const auto x = array(g, n);
  const auto times_sigmoid = [&](const auto& z) { xt::noalias(array(out, n)) = x / (1.0f + xt::exp(-z)) * array(up, n); };
  if (kind == Gate::silu) {
    times_sigmoid(x);
  } else {
    times_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));  // 2 sqrt(2 / pi)
  }
}

float element(const StoredRows& w, std::int64_t index) {
  if (w.type == Stored::f32) {
    float value;
    std::memcpy(&value, static_cast<const float*>(w.data) + index, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const std::uint16_t*>(w.data) + index, sizeof bits);
  return w.type == Stored::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
}

// (B5)
void multiply(Rows x, StoredRows w, std::int64_t cols, OutRows y) {
  std::vector<float> row(cols);
  for (std::int64_t r = 0; r < w.count; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) row[c] = element(w, r * w.stride + c);
    for (std::int64_t t = 0; t < x.count; ++t) {
      y.data[t * y.stride + r] = xt::sum(array(x.data + t * x.stride, cols) * array(row.data(), cols))();
    }
  }
}

// (B6); a tile is one row, its scales and offsets floats.
void multiply_affine(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t row, OutRows y) {
  const std::uint8_t* tile = data + row * layout.tile_bytes;
  const auto* scales = reinterpret_cast<const float*>(tile + layout.scales_at);
  const auto* offsets = reinterpret_cast<const float*>(tile + layout.offsets_at);
  for (std::int64_t t = 0; t < x.count; ++t) {
    float total = 0.0f;
    for (std::int64_t block = 0; block < x.blocks; ++block) {
      const std::uint8_t* codes = tile + block * layout.block_code_bytes;
      const std::int8_t* inputs = x.codes + (t * x.blocks + block) * kBlock;
      std::int32_t dot = 0;
      for (int i = 0; i < kBlock; ++i) {
        const int code = layout.bits == 8 ? codes[i] : i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
        dot += code * inputs[i];
      }
      const std::int64_t at = t * x.blocks + block;
      total += x.scales[at] * scales[block] * static_cast<float>(dot) + offsets[block] * x.offset_factors[at];
    }
    y.data[t * y.stride + row] = total;
  }
}

// (B8); a tile is one row.
void multiply_int8(const Int8Input& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t row, OutRows y) {
  const std::uint8_t* codes = data + row * layout.tile_bytes;
  const float scale = *reinterpret_cast<const float*>(codes + layout.scales_at);
  const std::int64_t columns = x.blocks * kBlock;
  for (std::int64_t t = 0; t < x.count; ++t) {
    std::int32_t sum = x.starts[t];
    for (std::int64_t c = 0; c < columns; ++c) sum += codes[c] * x.codes[t * columns + c];
    y.data[t * y.stride + row] = static_cast<float>(sum) * (scale * x.scales[t]);
  }
}

}  // namespace

const KernelSet& plain_kernels() {
  static constexpr KernelSet kSet = {"plain", 1,     false,    quantize,       rms_norm, rotate_pairs,
                                     gated,   add_rows, multiply, multiply_affine, multiply_int8};
  return kSet;
}

}  // namespace patchbay::cpu
