// One group's scale and zero point: what they mean and how they are chosen. Formulas (I1)...(I6): README.md.
#pragma once
#include <algorithm>
#include <vector>

#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/scale_search.h"

namespace patchbay {

/// What one group's codes mean.
struct Group {
  float scale = 0;  // an fp16 value
  int zero = 0;     // the code that stands for 0
  float inverse() const { return scale > 0.0f ? 1.0f / scale : 0.0f; }
};

/// (I1)
inline float value_of(int code, const Group& group) { return group.scale * static_cast<float>(code - group.zero); }

/// (I5)
inline int code_of(float w, const Group& group, int max_code) {
  const float exact = w * group.inverse() + static_cast<float>(group.zero);
  const float clamped = exact > 0.0f ? std::min(exact, static_cast<float>(max_code)) : 0.0f;  // NaN gives 0
  return static_cast<int>(clamped + 0.5f);
}

/// (I6) Importance of a tile's columns. One that calibration never saw shares its scale with others, and would be cut as far as helps them:
/// it counts a tenth of the column in the middle of those that were seen.
inline std::vector<float> search_importance(View<const float, 1> given, std::int64_t columns, const char* format) {
  std::vector<float> importance = column_importance(given, columns, format), seen;
  for (std::int64_t c = 0; c < given.shape[0]; ++c) if (given[c] > 0.0f) seen.push_back(importance[c]);
  if (seen.empty()) return importance;
  const auto middle = seen.begin() + seen.size() / 2;
  std::nth_element(seen.begin(), middle, seen.end());
  for (float& each : importance) each = std::max(each, 0.1f * *middle);
  return importance;
}

/// Chooses the group of some neighbouring weights of a row.
struct GroupFit {
  const char* format;  ///< for messages
  int bits;
  bool symmetric;

  int max_code() const { return (1 << bits) - 1; }
  int middle_code() const { return 1 << (bits - 1); }

  Group covering(View<const float, 1> w) const {
    const auto [low, high] = range(w);
    return group_for(low, high);
  }
  /// (I6) The range, shrunk: the weights outside are cut, the others get a finer step.
  Group searched(View<const float, 1> w, const std::vector<float>& importance) const {
    const auto [low, high] = range(w);
    Group best = group_for(low, high);
    double least = squared_error(w, importance, best);
    for (int percent = 98; percent > 30; percent -= 2) {
      const float share = static_cast<float>(percent) / 100;
      const Group group = group_for(share * low, share * high);
      const double error = squared_error(w, importance, group);
      if (!(error < least)) continue;
      least = error;
      best = group;
    }
    return best;
  }

 private:
  struct Range { float low = 0, high = 0; };

  /// It always holds 0: else a group of one sign would need a zero point past the codes.
  static Range range(View<const float, 1> w) {
    Range range;
    for (std::int64_t c = 0; c < w.shape[0]; ++c) range = {std::min(range.low, w[c]), std::max(range.high, w[c])};
    return range;
  }
  Group group_for(float low, float high) const {
    if (symmetric) return {stored_scale(std::max(high, -low) / (static_cast<float>(max_code()) / 2)), middle_code()};  // (I2)
    Group group{stored_scale((high - low) / static_cast<float>(max_code()))};                                         // (I3)
    group.zero = std::clamp(static_cast<int>(-low * group.inverse() + 0.5f), 0, max_code());
    return group;
  }
  /// (I4) Rounded up, so that the ends of the range stay within half a step of a code.
  float stored_scale(float exact) const {
    const float nearest = rounded_to_half(exact, format);
    if (nearest >= exact) return nearest;
    const Half next{static_cast<std::uint16_t>(to_half(nearest).bits + 1)};
    return rounded_to_half(to_float(next), format);
  }
  double squared_error(View<const float, 1> w, const std::vector<float>& importance, const Group& group) const {
    double sum = 0;
    for (std::int64_t c = 0; c < w.shape[0]; ++c) {
      const float error = w[c] - value_of(code_of(w[c], group, max_code()), group);
      sum += static_cast<double>(importance[c]) * error * error;
    }
    return sum;
  }
};

}  // namespace patchbay
