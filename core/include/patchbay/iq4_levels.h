/// @file iq4_levels.h
/// The sixteen levels of IQ4_NL and IQ4_XS: closer together near 0, where most weights are.
#pragma once
#include <array>
#include <cstdint>

namespace patchbay {

/// As published with ggml. Inside patchbay a code is its level + kIq4Zero, a byte: so the integer kernel needs no table.
inline constexpr std::array<int, 16> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int kIq4Zero = 128;

inline std::uint8_t iq4_code(int index) { return static_cast<std::uint8_t>(kIq4Levels[index] + kIq4Zero); }
/// The index of the level nearest to x; the lower of two.
inline int nearest_iq4_index(float x) {
  int index = 0;
  while (index < 15 && x > 0.5f * static_cast<float>(kIq4Levels[index] + kIq4Levels[index + 1])) ++index;
  return index;
}
inline int iq4_index(std::uint8_t code) { return nearest_iq4_index(static_cast<float>(code) - kIq4Zero); }

}  // namespace patchbay
