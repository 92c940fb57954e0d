/// @file six_bit_scales.h
/// The 12 bytes in which Q4_K and Q5_K keep the scales and minima of their eight groups, 6 bits each.
#pragma once
#include "patchbay/super_block_format.h"

namespace patchbay {

/// Bytes 0..3: scales 0..3, and above them the top two bits of scales 4..7; bytes 4..7 the same of the minima; bytes 8..11: the low
/// four bits of scale 4..7, and above them those of minimum 4..7.
inline void pack_six_bits(const std::array<int, 8>& scales, const std::array<int, 8>& minima, std::uint8_t (&bytes)[12]) {
  for (int i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::uint8_t>(scales[i] | scales[i + 4] >> 4 << 6);
    bytes[i + 4] = static_cast<std::uint8_t>(minima[i] | minima[i + 4] >> 4 << 6);
    bytes[i + 8] = static_cast<std::uint8_t>((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
}
inline std::array<GroupScale, 8> six_bit_groups(float scale_step, float minimum_step, const std::uint8_t (&bytes)[12]) {
  std::array<GroupScale, 8> groups;
  const auto group = [&](int scale, int minimum) {
    return GroupScale{scale_step * static_cast<float>(scale), -(minimum_step * static_cast<float>(minimum))};
  };
  for (int i = 0; i < 4; ++i) {
    groups[i] = group(bytes[i] & 63, bytes[i + 4] & 63);
    groups[i + 4] = group((bytes[i + 8] & 15) | bytes[i] >> 6 << 4, bytes[i + 8] >> 4 | bytes[i + 4] >> 6 << 4);
  }
  return groups;
}

}  // namespace patchbay
