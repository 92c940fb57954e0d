// Kernel set "plain": the definition of every operation, as the formulas of README.md read.
#include <algorithm>
#include <cmath>
#include <limits>

#include "elementwise.h"
#include "kernels.h"
#include "patchbay/half.h"

namespace patchbay::cpu {
namespace {

// (B1)
void quantize(const float* x, std::int64_t cols, std::int8_t* codes, float* scales, std::int32_t* sums) {
  for (std::int64_t block = 0; block * kBlock < cols; ++block) {
    const float* values = x + block * kBlock;
    const std::int64_t n = std::min<std::int64_t>(kBlock, cols - block * kBlock);
    float largest = 0.0f;
    bool finite = true;
    for (std::int64_t i = 0; i < n; ++i) {
      largest = std::max(largest, std::fabs(values[i]));
      finite = finite && std::isfinite(values[i]);
    }
    const float inverse = 127.0f / largest;
    const bool usable = finite && std::isfinite(inverse);  // else all zero, or too small to divide by
    scales[block] = !finite ? std::numeric_limits<float>::quiet_NaN() : usable ? largest / 127.0f : 0.0f;
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const float scaled = usable && i < n ? values[i] * inverse : 0.0f;
      const auto code = static_cast<std::int8_t>(std::nearbyint(scaled));
      codes[block * kBlock + i] = code;
      sum += code;
    }
    sums[block] = sum;
  }
}

// (B2), summed in double.
void rms_norm(const float* x, const float* weight, std::int64_t cols, float epsilon, float* out) {
  double squares = 0.0;
  for (std::int64_t c = 0; c < cols; ++c) squares += static_cast<double>(x[c]) * x[c];
  const float factor = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(cols) + epsilon));
  for (std::int64_t c = 0; c < cols; ++c) out[c] = x[c] * factor * weight[c];
}

// (B4): both gates are g times a sigmoid.
void gated(Gate kind, const float* g, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = g[i];
    const float z = kind == Gate::silu ? x : 1.5957691216f * (x + 0.044715f * x * x * x);  // 2 sqrt(2 / pi)
    out[i] = x / (1.0f + std::exp(-z)) * up[i];
  }
}

// (B5)
void multiply(Rows x, Rows w, std::int64_t cols, OutRows y) {
  for (std::int64_t t = 0; t < x.count; ++t) {
    for (std::int64_t r = 0; r < w.count; ++r) {
      float total = 0.0f;
      for (std::int64_t c = 0; c < cols; ++c) total += x.data[t * x.stride + c] * w.data[r * w.stride + c];
      y.data[t * y.stride + r] = total;
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

}  // namespace

const KernelSet& plain_kernels() {
  static constexpr KernelSet kSet = {"plain", 1,     false,    quantize,       rms_norm, rotate_pairs,
                                     gated,   add_rows, multiply, multiply_affine};
  return kSet;
}

}  // namespace patchbay::cpu
