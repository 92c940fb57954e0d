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
inline constexpr std::array<float, 15> kIq4Midpoints = [] {
  std::array<float, 15> midpoints{};
  for (int i = 0; i < 15; ++i) midpoints[i] = 0.5f * static_cast<float>(kIq4Levels[i] + kIq4Levels[i + 1]);
  return midpoints;
}();
/// The index of the level nearest to x; the lower of two. Without branches: as many levels as midpoints that x is above.
inline int nearest_iq4_index(float x) {
  int index = 0;
  for (const float midpoint : kIq4Midpoints) index += x > midpoint ? 1 : 0;
  return index;
}
inline int iq4_index(std::uint8_t code) { return nearest_iq4_index(static_cast<float>(code) - kIq4Zero); }

}  // namespace patchbay
