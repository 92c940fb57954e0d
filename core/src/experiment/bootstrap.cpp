#include "experiment/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "patchbay/decoder.h"

namespace patchbay {
namespace {

/// Linear interpolation between order statistics; `values` sorted.
double percentile(const std::vector<double>& values, double fraction) {
  const double at = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

Interval bootstrap(std::int64_t n, std::uint64_t seed, FunctionRef<double(std::span<const std::int32_t>)> statistic) {
  if (n < 1) throw Error("bootstrap", "nothing to resample");
  Rng rng(seed);
  std::vector<std::int32_t> drawn(n);
  std::vector<double> results(kResamples);
  for (auto& result : results) {
    for (auto& unit : drawn) unit = static_cast<std::int32_t>(rng.uniform() * static_cast<double>(n));
    result = statistic(drawn);
  }
  std::erase_if(results, [](double result) { return std::isnan(result); });
  if (results.empty()) throw Error("bootstrap", "the statistic has no value on any resample");
  std::sort(results.begin(), results.end());
  return {percentile(results, 0.025), percentile(results, 0.975)};
}

std::optional<Interval> interval_of_mean(std::span<const double> sums, std::span<const double> counts, std::uint64_t seed) {
  if (sums.size() == 1) return {};
  return bootstrap(static_cast<std::int64_t>(sums.size()), seed, [&](std::span<const std::int32_t> drawn) {
    double sum = 0, count = 0;
    for (const auto unit : drawn) {
      sum += sums[unit];
      count += counts[unit];
    }
    return sum / count;  // 0/0 where only units without a count were drawn (prompts for which nothing was drafted): left out
  });
}

double median(std::vector<double> values) {
  if (values.empty()) throw Error("median", "no values");
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

std::optional<Interval> interval_of_median(std::span<const double> values, std::uint64_t seed) {
  if (values.size() == 1) return {};
  return bootstrap(static_cast<std::int64_t>(values.size()), seed, [&](std::span<const std::int32_t> drawn) {
    std::vector<double> picked;
    for (const auto unit : drawn) picked.push_back(values[unit]);
    return median(std::move(picked));
  });
}

}  // namespace patchbay
