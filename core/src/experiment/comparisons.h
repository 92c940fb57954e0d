/// @file comparisons.h
/// Many runs against one baseline: a p-value per difference, and what is left of it when there are many.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiment/metrics.h"

namespace patchbay {

/// A false difference is among those that a table marks in at most this share of tables.
inline constexpr double kFamilyError = 0.05;

/// P(|T| >= |t|) of Student's distribution. Exact series for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4); good to
/// about 1e-15, so that p-values stay telling when multiplied by thousands of comparisons.
PATCHBAY_API double student_t_two_sided(double t, std::int64_t degrees);
/// The t that is exceeded in absolute value with probability 1 - `coverage`.
PATCHBAY_API double student_t_bound(double coverage, std::int64_t degrees);

/// A mean difference, with its 95% interval and the p-value of "there is none", both from Student's t.
struct PairedTest {
  double mean = 0;
  Interval interval;
  double p = 1;
};
/// Of sum(sums) / sum(counts), unit i (a block of tokens, a round of timings) contributing sums[i] and counts[i]. Nothing for one unit.
PATCHBAY_API std::optional<PairedTest> paired_test(std::span<const double> sums, std::span<const double> counts);

/// Holm's step-down (Holm 1979, A simple sequentially rejective multiple test procedure): p-values which, compared with a, are wrong
/// anywhere in the family with probability a at most, whatever the comparisons have to do with each other.
PATCHBAY_API std::vector<double> holm_adjusted(std::span<const double> p_values);

/// Gives every metric NAME_p of the records its NAME_p_adjusted. All records are one family, since a reader looks at one table; rows
/// that share one scored text are one comparison; the row that is the baseline again is a control and no part of it.
PATCHBAY_API void add_adjusted_p(std::vector<Json>& records);

}  // namespace patchbay
