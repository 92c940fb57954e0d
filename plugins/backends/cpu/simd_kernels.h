// The vector kernels, written once over a vector type V (Avx2 in ops_avx2.cpp, Avx512 in ops_avx512.cpp): V::kLanes floats,
// loads and stores of a whole vector or of its first n lanes, and the few operations named below.
//
// Every sum runs in an order that depends on the number of columns alone: lane l adds columns l, l + kLanes, ..., and the
// lanes are added up by a fixed tree. How many tokens or rows are worked on together changes nothing.
#pragma once
#include "elementwise.h"
#include "kernels.h"

namespace patchbay::cpu {
namespace {

/// Lanes of the vector that begins at column c.
inline int lanes_left(std::int64_t cols, std::int64_t c, int lanes) {
  return cols - c < lanes ? static_cast<int>(cols - c) : lanes;
}

/// What changed: a block is 2 or 4 vectors; its maximum is taken on the bits, where NaN and infinity are the largest.
template <class V>
void quantize(const float* x, std::int64_t cols, std::int8_t* codes, float* scales, std::int32_t* sums) {
  constexpr int kParts = kBlock / V::kLanes;
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  for (std::int64_t block = 0; block * kBlock < cols; ++block) {
    typename V::Floats values[kParts];
    typename V::Ints largest_bits = V::zero_ints();
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t c = block * kBlock + part * V::kLanes;
      values[part] = cols <= c ? V::zero() : V::load_first(x + c, lanes_left(cols, c, V::kLanes));
      largest_bits = V::max(largest_bits, V::magnitude_bits(values[part]));
    }
    const std::int32_t bits = V::reduce_max(largest_bits);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof(largest));
    const float inverse = 127.0f / largest;
    const bool finite = bits < kInfinityBits, usable = finite && inverse <= __FLT_MAX__;
    scales[block] = !finite ? __builtin_nanf("") : usable ? largest / 127.0f : 0.0f;
    typename V::Ints sum = V::zero_ints();
    for (int part = 0; part < kParts; ++part) {
      const typename V::Ints rounded = usable ? V::round(values[part] * V::all(inverse)) : V::zero_ints();
      V::store_codes(codes + block * kBlock + part * V::kLanes, rounded);
      sum = V::add(sum, rounded);
    }
    sums[block] = V::reduce_add(sum);
  }
}

/// What changed: kLanes sums of squares in fp32 instead of one in double.
template <class V>
void rms_norm(const float* x, const float* weight, std::int64_t cols, float epsilon, float* out) {
  typename V::Floats squares = V::zero();
  const std::int64_t whole = cols - cols % V::kLanes;
  const int rest = static_cast<int>(cols - whole);
  for (std::int64_t c = 0; c < whole; c += V::kLanes) squares = V::fma(V::load(x + c), V::load(x + c), squares);
  if (rest) squares = V::fma(V::load_first(x + whole, rest), V::load_first(x + whole, rest), squares);
  const typename V::Floats factor = V::all(1.0f / V::sqrt(V::reduce_add(squares) / static_cast<float>(cols) + epsilon));
  for (std::int64_t c = 0; c < whole; c += V::kLanes) V::store(out + c, V::load(x + c) * factor * V::load(weight + c));
  if (rest) V::store_first(out + whole, rest, V::load_first(x + whole, rest) * factor * V::load_first(weight + whole, rest));
}

/// e^x = 2^n e^r with |r| <= ln(2)/2 and e^r by its Taylor series to r^7, whose rest (5e-9) is below rounding.
/// x is first brought into the range where 2^n is a normal number.
template <class V>
typename V::Floats exponential(typename V::Floats x) {
  x = V::min(V::all(88.3f), V::max(V::all(-87.3f), x));  // this order of operands keeps NaN
  const typename V::Ints n = V::round(x * V::all(1.44269504f));
  const typename V::Floats whole = V::to_floats(n);
  // ln(2) in two parts, the first short enough that n times it is exact.
  const typename V::Floats r = V::fma(whole, V::all(2.12194440e-4f), V::fma(whole, V::all(-0.693359375f), x));
  typename V::Floats sum = V::all(1.0f / 5040);
  constexpr float kCoefficients[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  for (const float coefficient : kCoefficients) sum = V::fma(sum, r, V::all(coefficient));
  return sum * V::power_of_two(n);
}

template <class V>
typename V::Floats gate(Gate kind, typename V::Floats x) {
  const typename V::Floats z =
      kind == Gate::silu ? x : V::all(1.5957691216f) * V::fma(V::all(0.044715f) * x * x, x, x);
  return x / (V::all(1.0f) + exponential<V>(V::zero() - z));
}

/// What changed: the exponential is a polynomial on whole vectors, within 3e-7 of the library's.
template <class V>
void gated(Gate kind, const float* g, const float* up, std::int64_t n, float* out) {
  const std::int64_t whole = n - n % V::kLanes;
  const int rest = static_cast<int>(n - whole);
  for (std::int64_t i = 0; i < whole; i += V::kLanes) V::store(out + i, gate<V>(kind, V::load(g + i)) * V::load(up + i));
  if (rest) V::store_first(out + whole, rest, gate<V>(kind, V::load_first(g + whole, rest)) * V::load_first(up + whole, rest));
}

/// How a stored weight becomes a vector of floats. Bytes are counted, since a mapped file aligns to nothing.
template <class V>
struct WeightsF32 {
  static constexpr int kBytes = 4;
  static typename V::Floats load(const char* from) { return V::load(reinterpret_cast<const float*>(from)); }
  static typename V::Floats load_first(const char* from, int n) { return V::load_first(reinterpret_cast<const float*>(from), n); }
};
template <class V>
struct WeightsF16 {
  static constexpr int kBytes = 2;
  static typename V::Floats load(const char* from) { return V::from_half(V::load_16(from)); }
  static typename V::Floats load_first(const char* from, int n) { return V::from_half(V::load_16_first(from, n)); }
};
template <class V>
struct WeightsBf16 {
  static constexpr int kBytes = 2;
  static typename V::Floats load(const char* from) { return V::from_bfloat16(V::load_16(from)); }
  static typename V::Floats load_first(const char* from, int n) { return V::from_bfloat16(V::load_16_first(from, n)); }
};

/// A register tile: kTokens tokens by 4 rows. Missing rows repeat the first and are not stored.
template <class V, class W, int kTokens>
void multiply_tile(const float* x, std::int64_t x_stride, const char* const w[4], int rows, std::int64_t cols, OutRows y) {
  typename V::Floats sums[kTokens][4];
  for (int t = 0; t < kTokens; ++t) for (int r = 0; r < 4; ++r) sums[t][r] = V::zero();
  const std::int64_t whole = cols - cols % V::kLanes;
  const auto step = [&](auto load_input, auto load_weights) __attribute__((always_inline)) {
    typename V::Floats inputs[kTokens];
    for (int t = 0; t < kTokens; ++t) inputs[t] = load_input(x + t * x_stride);
    for (int r = 0; r < 4; ++r) {
      const typename V::Floats weights = load_weights(w[r]);
      for (int t = 0; t < kTokens; ++t) sums[t][r] = V::fma(inputs[t], weights, sums[t][r]);
    }
  };
  for (std::int64_t c = 0; c < whole; c += V::kLanes) {
    step([c](const float* row) __attribute__((always_inline)) { return V::load(row + c); },
         [c](const char* row) __attribute__((always_inline)) { return W::load(row + c * W::kBytes); });
  }
  if (whole != cols) {
    const int rest = static_cast<int>(cols - whole);
    step([=](const float* row) __attribute__((always_inline)) { return V::load_first(row + whole, rest); },
         [=](const char* row) __attribute__((always_inline)) { return W::load_first(row + whole * W::kBytes, rest); });
  }
  for (int t = 0; t < kTokens; ++t) V::store_sums(sums[t], y.data + t * y.stride, rows);
}

/// The tile for n <= kMost tokens.
template <class V, class W, int kMost>
void multiply_tokens(int n, const float* x, std::int64_t x_stride, const char* const w[4], int rows, std::int64_t cols,
                     OutRows y) {
  if (n == kMost) return multiply_tile<V, W, kMost>(x, x_stride, w, rows, cols, y);
  if constexpr (kMost > 1) multiply_tokens<V, W, kMost - 1>(n, x, x_stride, w, rows, cols, y);
}

template <class V, class W>
void multiply_stored(const Rows& x, const StoredRows& w, std::int64_t cols, const OutRows& y) {
  const char* data = static_cast<const char*>(w.data);
  for (std::int64_t t = 0; t < x.count; t += V::kTileTokens) {
    const int tokens = lanes_left(x.count, t, V::kTileTokens);
    for (std::int64_t r = 0; r < w.count; r += 4) {
      const int rows = lanes_left(w.count, r, 4);
      const char* pointers[4];
      for (int i = 0; i < 4; ++i) pointers[i] = data + (r + (i < rows ? i : 0)) * w.stride * W::kBytes;
      multiply_tokens<V, W, V::kTileTokens>(tokens, x.data + t * x.stride, x.stride, pointers, rows, cols,
                                            {y.data + t * y.stride + r, y.stride});
    }
  }
}

/// What changed: columns side by side in a vector, and a tile of sums in registers, so that each load serves several products.
/// 16-bit weights become floats in registers: half the memory traffic, and a conversion for 2 to 24 products.
template <class V>
void multiply(Rows x, StoredRows w, std::int64_t cols, OutRows y) {
  w.type == Stored::f32   ? multiply_stored<V, WeightsF32<V>>(x, w, cols, y)
  : w.type == Stored::f16 ? multiply_stored<V, WeightsF16<V>>(x, w, cols, y)
                          : multiply_stored<V, WeightsBf16<V>>(x, w, cols, y);
}

/// One tile of an affine weight by kTokens tokens. kRun: how many byte products V::dot may add up in 16 bits.
template <class V, int kBits, int kRun, bool kImplied, int kTokens>
void affine_tile(const AffineInput& x, std::int64_t first, const AffineLayout& layout, const std::uint8_t* tile, float* y,
                 std::int64_t y_stride, int rows) {
  typename V::Floats sums[kTokens];
  for (int t = 0; t < kTokens; ++t) sums[t] = V::zero();
  for (std::int64_t block = 0; block < x.blocks; ++block) {
    typename V::Ints codes[8];
    V::template load_codes<kBits>(tile + block * layout.block_code_bytes, codes);
    const typename V::Floats scales = V::load_scales(tile + layout.scales_at + block * layout.block_scale_bytes, layout.half);
    typename V::Floats offsets;
    if constexpr (!kImplied) offsets = V::load_scales(tile + layout.offsets_at + block * layout.block_scale_bytes, layout.half);
#pragma GCC unroll 16  // else the sums live in memory
    for (int t = 0; t < kTokens; ++t) {
      const std::int64_t at = (first + t) * x.blocks + block;
      typename V::Ints dot = V::template dot<kRun>(codes, x.codes + at * kBlock);
      if constexpr (kImplied) dot = V::add(dot, V::all(x.starts[at]));
      sums[t] = V::fma(V::to_floats(dot), scales * V::all(x.scales[at]), sums[t]);
      if constexpr (!kImplied) sums[t] = V::fma(offsets, V::all(x.offset_factors[at]), sums[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    rows == V::kLanes ? V::store(y + t * y_stride, sums[t]) : V::store_first(y + t * y_stride, rows, sums[t]);
  }
}

template <class V, int kBits, int kRun, bool kImplied, int kMost>
void affine_tokens(int n, const AffineInput& x, std::int64_t first, const AffineLayout& layout, const std::uint8_t* tile,
                   float* y, std::int64_t y_stride, int rows) {
  if (n == kMost) return affine_tile<V, kBits, kRun, kImplied, kMost>(x, first, layout, tile, y, y_stride, rows);
  if constexpr (kMost > 1) affine_tokens<V, kBits, kRun, kImplied, kMost - 1>(n, x, first, layout, tile, y, y_stride, rows);
}

template <class V, int kBits, int kRun, bool kImplied>
void affine_all_tokens(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile, OutRows y) {
  const std::int64_t first_row = tile * V::kLanes;
  const int rows = lanes_left(layout.rows, first_row, V::kLanes);
  for (std::int64_t t = 0; t < x.count; t += V::kAffineTokens) {
    affine_tokens<V, kBits, kRun, kImplied, V::kAffineTokens>(lanes_left(x.count, t, V::kAffineTokens), x, t, layout,
                                                              data + tile * layout.tile_bytes, y.data + t * y.stride + first_row,
                                                              y.stride, rows);
  }
}

/// What changed: rows side by side, so that a product of bytes needs no sum across lanes; codes unpacked once for several tokens.
template <class V, int kBits, int kRun>
void multiply_affine_run(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile,
                         OutRows y) {
  layout.zero == kNoZero ? affine_all_tokens<V, kBits, kRun, false>(x, layout, data, tile, y)
                         : affine_all_tokens<V, kBits, kRun, true>(x, layout, data, tile, y);
}

/// One tile of an int8 weight by kTokens tokens: one scale at the end, so that nothing but integers is summed.
template <class V, int kTokens>
void int8_tile(const Int8Input& x, std::int64_t first, const AffineLayout& layout, const std::uint8_t* tile, float* y,
               std::int64_t y_stride, int rows) {
  typename V::Ints sums[kTokens];
  for (int t = 0; t < kTokens; ++t) sums[t] = V::all(x.starts[first + t]);
  for (std::int64_t block = 0; block < x.blocks; ++block) {
    typename V::Ints codes[8];
    V::template load_codes<8>(tile + block * layout.block_code_bytes, codes);
#pragma GCC unroll 16  // else the sums live in memory
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = V::add(sums[t], V::template dot<0>(codes, x.codes + ((first + t) * x.blocks + block) * kBlock));
    }
  }
  const typename V::Floats scales = V::load_scales(tile + layout.scales_at, false);
  for (int t = 0; t < kTokens; ++t) {
    const typename V::Floats value = V::to_floats(sums[t]) * (scales * V::all(x.scales[first + t]));
    rows == V::kLanes ? V::store(y + t * y_stride, value) : V::store_first(y + t * y_stride, rows, value);
  }
}
template <class V, int kMost>
void int8_tokens(int n, const Int8Input& x, std::int64_t first, const AffineLayout& layout, const std::uint8_t* tile, float* y,
                 std::int64_t y_stride, int rows) {
  if (n == kMost) return int8_tile<V, kMost>(x, first, layout, tile, y, y_stride, rows);
  if constexpr (kMost > 1) int8_tokens<V, kMost - 1>(n, x, first, layout, tile, y, y_stride, rows);
}

template <class V>
void multiply_int8(const Int8Input& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile, OutRows y) {
  const std::int64_t first_row = tile * V::kLanes;
  const int rows = lanes_left(layout.rows, first_row, V::kLanes);
  for (std::int64_t t = 0; t < x.count; t += V::kAffineTokens) {
    int8_tokens<V, V::kAffineTokens>(lanes_left(x.count, t, V::kAffineTokens), x, t, layout, data + tile * layout.tile_bytes,
                                     y.data + t * y.stride + first_row, y.stride, rows);
  }
}

}  // namespace
}  // namespace patchbay::cpu
