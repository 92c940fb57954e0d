/// @file bootstrap.h
/// 95% intervals by resampling: how far a figure would move with another draw of texts, prompts or timings.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "patchbay/tensor.h"

namespace patchbay {

struct Interval {
  double low = 0, high = 0;
};

inline constexpr int kResamples = 1000;

/// Percentile bootstrap (Efron 1979): draws n of n units with replacement kResamples times and takes the 2.5th and 97.5th
/// percentiles of the statistic. Equal n and seed give equal draws: intervals of two runs over the same units are paired.
/// Resamples on which the statistic is NaN (undefined) are left out. @throws Error when that is all of them.
PATCHBAY_API Interval bootstrap(std::int64_t n, std::uint64_t seed,
                                FunctionRef<double(std::span<const std::int32_t> drawn)> statistic);
/// Interval of sum(sums) / sum(counts); unit i (a block of tokens, a prompt) contributes sums[i] and counts[i].
/// Nothing for a single unit: resampling it gives itself, and a width of 0 would claim certainty.
PATCHBAY_API std::optional<Interval> interval_of_mean(std::span<const double> sums, std::span<const double> counts, std::uint64_t seed);

PATCHBAY_API double median(std::vector<double> values);
/// Nothing for a single value.
PATCHBAY_API std::optional<Interval> interval_of_median(std::span<const double> values, std::uint64_t seed);

}  // namespace patchbay
