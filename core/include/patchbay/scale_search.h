/// @file scale_search.h
/// Scales of least squared error for a group of weights, instead of the scale that just covers their range: a smaller one cuts a few
/// far weights and brings all others nearer. Formulas (F1)...(F5), for every block format: plugins/quantizers/scale_search/README.md.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "patchbay/error.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// What a group says besides its codes: value = scale * level + offset, where a level is code - zero.
struct GroupScale { float scale = 0, offset = 0; };

/// Which offsets a format can store.
enum class Offset { none, at_most_zero, any };

/// (F1) Importance of the columns of a tile, 1 on average and never 0: a group that no input reaches is fitted as if its columns were
/// equal, and has next to no say in what it shares with others. Empty, or zero everywhere: all equal.
/// @throws Error for an importance that is negative or not finite.
inline std::vector<float> column_importance(View<const float, 1> given, std::int64_t columns, const char* format) {
  constexpr double kLeast = 1e-6;
  std::vector<float> importance(static_cast<std::size_t>(columns), 1.0f);
  double mean = 0;
  for (std::int64_t c = 0; c < given.shape[0]; ++c) {
    if (!(given[c] >= 0.0f && given[c] <= std::numeric_limits<float>::max()))
      throw Error(format, "column " + std::to_string(c) + " of a tile has an importance of " + std::to_string(given[c]),
                  "finite numbers from 0 up", "look at the calibration: an input of this layer was not finite");
    mean += given[c] / static_cast<double>(columns);
  }
  for (std::int64_t c = 0; c < given.shape[0] && mean > 0; ++c) importance[c] = static_cast<float>(std::max(given[c] / mean, kLeast));
  return importance;
}

/// Sums over weights w and their levels l, each times the importance of its column: all that least squares needs.
struct LeastSquares {
  double one = 0, l = 0, ll = 0, w = 0, wl = 0;

  void add(double importance, double weight, double level) {
    one += importance;
    l += importance * level;
    ll += importance * level * level;
    w += importance * weight;
    wl += importance * weight * level;
  }
  /// (F4) The best scale and offset of those that are allowed; (F3) the best scale alone.
  GroupScale best(Offset allowed) const {
    const double determinant = one * ll - l * l, offset = (ll * w - l * wl) / determinant;
    if (determinant > 0 && can_be(offset, allowed)) return {static_cast<float>((one * wl - l * w) / determinant), static_cast<float>(offset)};
    if (ll > 0) return {static_cast<float>(wl / ll), 0.0f};
    return {0.0f, can_be(w / one, allowed) ? static_cast<float>(w / one) : 0.0f};  // all levels are 0
  }

 private:
  static bool can_be(double offset, Offset allowed) { return allowed == Offset::any || (allowed == Offset::at_most_zero && offset <= 0); }
};

/// A group of weights to be fitted. `Rounding` says how the format rounds: kLowest, kHighest, the ends of its levels; and
/// level(w, scale), the level that w gets.
template <class Rounding>
struct WeightGroup {
  const float* w;
  const float* importance;  ///< of the same columns
  std::int64_t count;

  /// (F2)
  double squared_error(const GroupScale& scale) const {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float error = w[i] - (scale.scale * Rounding::level(w[i], scale) + scale.offset);
      sum += static_cast<double>(importance[i]) * error * error;
    }
    return sum;
  }
  /// The best scale for the levels that the weights get under `scale`.
  GroupScale refitted(const GroupScale& scale, Offset allowed) const {
    LeastSquares sums;
    for (std::int64_t i = 0; i < count; ++i) sums.add(importance[i], w[i], Rounding::level(w[i], scale));
    return sums.best(allowed);
  }
  GroupScale searched(Offset allowed) const;
};

/// (F5) Tries steps from a little wider than the covering one to narrower ones, which cut the weights at either end; refits each by least
/// squares; and repeats that for the best of them while it helps.
template <class Rounding>
GroupScale WeightGroup<Rounding>::searched(Offset allowed) const {
  constexpr float kLevels = Rounding::kHighest - Rounding::kLowest, kUnit = std::max(1.0f, kLevels / 16);
  constexpr int kMostRefits = 4;
  GroupScale best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const GroupScale& scale) {
    const double error = squared_error(scale);
    if (!(error < least)) return false;
    least = error;
    best = scale;
    return true;
  };
  auto [low, high] = std::minmax_element(w, w + count);
  const float bottom = allowed == Offset::at_most_zero ? std::min(*low, 0.0f) : *low;
  const float extreme = -*low > *high ? *low : *high;
  for (const float cut : {-0.8f, -0.4f, 0.0f, 0.4f, 0.8f, 1.2f, 1.6f, 2.0f}) {  // levels, by which the range is longer than the codes reach
    if (allowed == Offset::none) {
      consider(refitted({extreme / (Rounding::kLowest - cut * kUnit), 0}, allowed));
      consider(refitted({extreme / (Rounding::kHighest + cut * kUnit), 0}, allowed));
    } else {
      const float step = (*high - bottom) / (kLevels + cut * kUnit);
      consider(refitted({step, bottom}, allowed));
      consider(refitted({step, bottom + cut * kUnit * step}, allowed));
    }
  }
  for (int i = 0; i < kMostRefits && consider(refitted(best, allowed)); ++i) {}
  return best;
}

}  // namespace patchbay
