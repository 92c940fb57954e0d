#include "experiment/comparisons.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

namespace patchbay {

double student_t_two_sided(double t, std::int64_t degrees) {
  if (degrees < 1) throw Error("Student's t", "no degrees of freedom");
  if (std::isnan(t)) return 1;
  // With theta = atan(|t| / sqrt(degrees)), P(|T| < |t|) is a finite series in sin and cos of theta.
  const double theta = std::atan(std::fabs(t) / std::sqrt(static_cast<double>(degrees)));
  const double sine = std::sin(theta), square = std::cos(theta) * std::cos(theta);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(theta) : 1, sum = degrees == 1 ? 0 : term;
  for (std::int64_t k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= square * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  const double inside = odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
  return std::clamp(1 - inside, 0.0, 1.0);
}

double student_t_bound(double coverage, std::int64_t degrees) {
  double low = 0, high = 1;
  while (student_t_two_sided(high, degrees) > 1 - coverage) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_t_two_sided(middle, degrees) > 1 - coverage ? low : high) = middle;
  }
  return high;
}

std::optional<PairedTest> paired_test(std::span<const double> sums, std::span<const double> counts) {
  const auto n = static_cast<std::int64_t>(sums.size());
  if (n < 2) return {};
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / total;
  double squares = 0;  // of what each unit adds to the ratio's error
  for (std::int64_t i = 0; i < n; ++i) squares += (sums[i] - mean * counts[i]) * (sums[i] - mean * counts[i]);
  const double error = std::sqrt(squares * static_cast<double>(n) / static_cast<double>(n - 1)) / total;
  const double half = student_t_bound(0.95, n - 1) * error;
  const double p = mean == 0 ? 1 : error == 0 ? 0 : student_t_two_sided(mean / error, n - 1);
  return PairedTest{mean, {mean - half, mean + half}, p};
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  const auto n = p_values.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(n);
  double largest = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(n - rank) * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

void add_adjusted_p(std::vector<Json>& records) {
  std::map<std::string, double> family;
  const auto each = [&](auto visit) {
    for (auto& record : records) {
      const auto against = record.find("against");  // another run than the baseline, to which the baseline is one run among others
      if (record.value("noise", false) || (record.value("baseline", false) && against == record.end())) continue;
      std::vector<std::string> names;
      for (const auto& [name, value] : record["metrics"].items())
        if (name.ends_with("_p") && value.is_number()) names.push_back(name);
      for (const auto& name : names) {
        const auto evaluation = record.value("evaluation", Json::object());
        const bool of_text = (name == "perplexity_ratio_p" || name.starts_with("against_")) && evaluation.contains("scores");
        const auto other = against == record.end() ? "" : " " + (*against)["scores"].dump();
        visit(record, name, name + " " + (of_text ? evaluation["scores"].dump() + other : record["hash"].dump()));
      }
    }
  };
  each([&](Json& record, const std::string& name, const std::string& comparison) { family[comparison] = record["metrics"][name].get<double>(); });
  std::vector<double> p_values;
  for (const auto& [comparison, p] : family) p_values.push_back(p);
  const auto adjusted = holm_adjusted(p_values);
  std::size_t i = 0;
  for (auto& [comparison, p] : family) p = adjusted[i++];
  each([&](Json& record, const std::string& name, const std::string& comparison) { record["metrics"][name + "_adjusted"] = family[comparison]; });
}

}  // namespace patchbay
