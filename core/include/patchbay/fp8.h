/// @file fp8.h
/// Conversions between float and the two 8-bit floats (Micikevicius et al. 2022, OCP 8-bit Floating Point): round to nearest, ties to
/// even. E4M3 has 4 bits of precision and reaches 448; E5M2 has 3 and reaches 57344.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace patchbay {

/// What the two differ in. E4M3 has no infinity: one pattern (all ones) is its NaN.
struct Fp8Format { int mantissa_bits, bias; unsigned char largest, infinity, nan; };
inline constexpr Fp8Format kE4M3{3, 7, 0x7E, 0x7F, 0x7F}, kE5M2{2, 15, 0x7B, 0x7C, 0x7F};

// Inlined in every build, as gpu/half_types.h says of its own.

/// saturate: what is too large, infinities too, becomes the largest number, as CUDA's conversions do; else infinity, or E4M3's NaN.
[[gnu::always_inline]] inline unsigned char encode_fp8(float value, const Fp8Format& format, bool saturate = true) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7FFFFFFFu;
  const unsigned sign = bits >> 24 & 0x80u;
  if (magnitude > 0x7F800000u) return format.nan;  // CUDA drops a NaN's sign
  const int drop = 23 - format.mantissa_bits;
  const std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - format.bias) << 23;
  std::uint32_t code;
  if (magnitude < smallest_normal) {  // subnormal: a multiple of the smallest number
    const float unit = std::bit_cast<float>(static_cast<std::uint32_t>(128 - format.bias - format.mantissa_bits) << 23);
    code = static_cast<std::uint32_t>(std::nearbyintf(std::bit_cast<float>(magnitude) / unit));
  } else {
    const std::uint32_t half_unit = (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    code = (magnitude + half_unit - (static_cast<std::uint32_t>(127 - format.bias) << 23)) >> drop;
  }
  if (code > format.largest) code = saturate ? format.largest : format.infinity;
  return static_cast<unsigned char>(sign | code);
}

/// Exact.
[[gnu::always_inline]] inline float decode_fp8(unsigned char code, const Fp8Format& format) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24, magnitude = code & 0x7Fu;
  if (magnitude > format.largest) {
    const bool infinite = format.infinity != format.nan && magnitude == format.infinity;
    return std::bit_cast<float>(sign | (infinite ? 0x7F800000u : 0x7FC00000u));
  }
  const float unit = std::bit_cast<float>(static_cast<std::uint32_t>(128 - format.bias - format.mantissa_bits) << 23);
  if (magnitude < (1u << format.mantissa_bits)) return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * unit));
  return std::bit_cast<float>(sign | ((magnitude << (23 - format.mantissa_bits)) + (static_cast<std::uint32_t>(127 - format.bias) << 23)));
}

}  // namespace patchbay
