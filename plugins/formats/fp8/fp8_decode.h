// Rows of codes as floats: out = scale * code. The AVX2 form gives the same bits.
#pragma once
#include <cstdint>

namespace patchbay::fp8 {

/// An 8-bit float is the upper part of a 16-bit one, once its exponent is as wide: e5m2's first byte is that of fp16, and e4m3 moved by one
/// bit is an fp16 number 2^8 too small, subnormal ones included.
struct Widening {
  int shift;     ///< of the seven bits below the sign
  float factor;  ///< what a widened number must be multiplied by
};
inline constexpr Widening kWidenE4M3{7, 256.0f}, kWidenE5M2{8, 1.0f};

#if defined(__x86_64__)
/// The first columns, a multiple of 8 of them; returns how many.
std::int64_t decode_avx2(const std::uint8_t* codes, std::int64_t n, Widening widening, float scale, float* out);
#endif

}  // namespace patchbay::fp8
