/// @file half.h
/// Conversions between float and the two 16-bit formats: round to nearest, ties to even, NaN kept, overflow to infinity.
#pragma once
#include <bit>
#include <cstdint>

#include "patchbay/tensor.h"

namespace patchbay {

/// Exact: every binary16 value is a float. Without branches, so that compilers turn loops of it into vector instructions.
inline float to_float(Half half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = half.bits & 0x7FFFu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;  // the exponent's bias is 127 instead of 15
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t is_subnormal = 0u - (magnitude < 0x400u), is_special = 0u - (magnitude >= 0x7C00u);  // all bits or none
  return std::bit_cast<float>(sign | (is_subnormal & subnormal) | (~is_subnormal & normal) | (is_special & 0x7F800000u));
}
inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline Half to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  if (magnitude >= 0x477FF000u) return {static_cast<std::uint16_t>(sign | 0x7C00u)};  // rounds past 65504
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal; adding 0.5 lets the FPU do the rounding
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13))};
}
inline BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace patchbay
