#include "quantize/bit_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace patchbay {
namespace {

/// From one candidate of a unit's hull to the next.
struct HullStep { std::size_t unit, to; double bits, gain; };

/// Candidates with which no other takes fewer bits at no more loss, and no mixture of two others does: in the order of bits, each step gains less per bit than
/// the one before.
std::vector<std::size_t> lower_hull(const SensitiveUnit& unit) {
  std::vector<std::size_t> order(unit.bits.size()), hull;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return std::pair(unit.bits[a], unit.losses[a]) < std::pair(unit.bits[b], unit.losses[b]); });
  const auto slope = [&](std::size_t a, std::size_t b) { return (unit.losses[a] - unit.losses[b]) / (unit.bits[b] - unit.bits[a]); };
  for (const std::size_t next : order) {
    if (!hull.empty() && (unit.losses[next] >= unit.losses[hull.back()] || unit.bits[next] == unit.bits[hull.back()])) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), next)) hull.pop_back();
    hull.push_back(next);
  }
  return hull;
}

}  // namespace

std::vector<std::size_t> allocate_bits(std::span<const SensitiveUnit> units, double budget_bits) {
  std::vector<std::size_t> chosen;
  std::vector<HullStep> steps;
  double used = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto hull = lower_hull(units[u]);
    chosen.push_back(hull.front());
    used += units[u].bits[hull.front()];
    for (std::size_t i = 1; i < hull.size(); ++i)
      steps.push_back({u, hull[i], units[u].bits[hull[i]] - units[u].bits[hull[i - 1]], units[u].losses[hull[i - 1]] - units[u].losses[hull[i]]});
  }
  if (used > budget_bits)
    throw Error("weights.bits_by_sensitivity.budget", fmt::format("the smallest candidates take {:.4f} times as much", used / budget_bits), "",
                "raise the budget, or add a smaller candidate");
  std::ranges::stable_sort(steps, [](const HullStep& a, const HullStep& b) { return a.gain * b.bits > b.gain * a.bits; });
  std::vector<bool> full(units.size());  // a unit whose next step did not fit takes no later one
  for (const HullStep& step : steps) {
    if (full[step.unit] || used + step.bits > budget_bits) {
      full[step.unit] = true;
      continue;
    }
    used += step.bits;
    chosen[step.unit] = step.to;
  }
  return chosen;
}

}  // namespace patchbay
