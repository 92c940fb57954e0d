/// @file iq4_codes.cuh
/// The sixteen levels of IQ4_NL and IQ4_XS on a GPU.
#pragma once
#include "patchbay/gpu/block_matmul.cuh"
#include "patchbay/iq4_levels.h"

namespace patchbay::PATCHBAY_GPU {

/// Eight levels, kIq4Zero larger, one to a byte: a table in two registers, where one in memory would be read sixteen times per
/// span.
constexpr unsigned long long eight_iq4_levels(int first) {
  unsigned long long levels = 0;
  for (int i = 0; i < 8; ++i) levels |= static_cast<unsigned long long>(kIq4Levels[first + i] + kIq4Zero) << 8 * i;
  return levels;
}
// Not inside iq4_codes: nvcc calls no function of the host there, not even for a constant.
inline constexpr unsigned long long kIq4Low = eight_iq4_levels(0), kIq4High = eight_iq4_levels(8);

/// Codes of four bits as levels.
__device__ inline Codes iq4_codes(const Codes& indices) {
  Codes codes{};
  for (int i = 0; i < kSpan; ++i) {
    const unsigned index = indices[i];
    const unsigned level = static_cast<unsigned>((index < 8 ? kIq4Low : kIq4High) >> (index & 7) * 8) & 0xFFu;
    codes.words[i / 4] |= level << i % 4 * 8;
  }
  return codes;
}

}  // namespace patchbay::PATCHBAY_GPU
