/// @file double_quantisation.h
/// Scales of blocks in 8 bits instead of 32, as QLoRA's double quantisation does it: less their mean, over the largest of 256
/// neighbours, to the nearest level of a dynamic map. Formulas (N4)...(N6): plugins/formats/nf4/README.md.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace patchbay {

inline constexpr std::int64_t kNestedBlock = 256;  ///< scales that share a second scale

/// (N6) Seven decades, 2, 4 ... 128 levels each and as many of either sign; besides 0 and 1. As published with Dettmers et al., 8-bit
/// Optimizers via Block-wise Quantization, 2022 (arXiv:2110.02861), and bitsandbytes.
inline std::array<float, 256> make_dynamic_map() {
  std::array<float, 256> map{};
  std::size_t count = 2;
  map[1] = 1.0f;
  for (int decade = 0; decade < 7; ++decade) {
    const int levels = 1 << decade;
    const double unit = std::pow(10.0, decade - 6), width = 0.9 / levels;
    for (int i = 0; i < levels; ++i) {
      const auto level = static_cast<float>(unit * (0.1 + width * (i + 0.5)));  // the middle of a piece of 0.1 ... 1
      map[count++] = level;
      map[count++] = -level;
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}
inline const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> map = make_dynamic_map();
  return map;
}

/// Scales >= 0 in 8 bits.
struct NestedScales {
  std::vector<std::uint8_t> codes;  ///< one per scale
  std::vector<float> second;        ///< one per 256 of them, then the mean

  /// (N4)
  float value(std::int64_t i) const { return value_of(codes[i], second.data(), i, static_cast<std::int64_t>(codes.size())); }
  /// The same of scale i of `count`, from what is stored.
  static float value_of(std::uint8_t code, const float* second, std::int64_t i, std::int64_t count) {
    return dynamic_map()[code] * second[i / kNestedBlock] + second[second_count(count) - 1];
  }
  static std::int64_t second_count(std::int64_t count) { return (count + kNestedBlock - 1) / kNestedBlock + 1; }

  /// (N5)
  static NestedScales of(const std::vector<float>& scales) {
    const auto count = static_cast<std::int64_t>(scales.size());
    NestedScales nested{std::vector<std::uint8_t>(scales.size()), std::vector<float>(static_cast<std::size_t>(second_count(count)))};
    double sum = 0;
    for (const float scale : scales) sum += scale;
    const auto mean = static_cast<float>(sum / static_cast<double>(count));
    nested.second.back() = mean;
    for (std::int64_t i = 0; i < count; ++i)
      nested.second[i / kNestedBlock] = std::max(nested.second[i / kNestedBlock], std::fabs(scales[i] - mean));
    for (std::int64_t i = 0; i < count; ++i) {
      const float unit = nested.second[i / kNestedBlock];
      nested.codes[i] = nearest(unit > 0 ? (scales[i] - mean) / unit : 0.0f);
      // Among much larger ones a scale can fall far below itself, and its block would lose its largest weights.
      while (nested.value(i) < 0.9f * scales[i] && nested.codes[i] < 255) ++nested.codes[i];
    }
    return nested;
  }

 private:
  static std::uint8_t nearest(float x) {
    const auto& map = dynamic_map();
    const auto above = std::lower_bound(map.begin(), map.end(), x);
    if (above == map.begin()) return 0;
    if (above == map.end()) return 255;
    const auto index = above - map.begin();
    return static_cast<std::uint8_t>(x - map[index - 1] < map[index] - x ? index - 1 : index);
  }
};

}  // namespace patchbay
