#include "experiment/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/comparisons.h"

namespace patchbay {
namespace {

/// Sums of a per-token quantity over blocks, and how many tokens each block has.
struct Blocks {
  std::vector<double> sums, counts;

  template <class Value>
  Blocks(const TokenScores& scores, Value value) {
    for (std::int64_t w = 0; w < scores.windows; ++w)
      for (std::int64_t begin = 0; begin < scores.per_window; begin += kBlockTokens) {
        const auto end = std::min(begin + kBlockTokens, scores.per_window);
        double sum = 0;
        for (auto i = begin; i < end; ++i) sum += value(w * scores.per_window + i);
        sums.push_back(sum);
        counts.push_back(static_cast<double>(end - begin));
      }
  }
  double mean() const {
    double sum = 0, count = 0;
    for (const double part : sums) sum += part;
    for (const double part : counts) count += part;
    return sum / count;
  }
  std::optional<Interval> interval(std::uint64_t seed) const { return interval_of_mean(sums, counts, seed); }
};

void add_p(Json& metrics, const std::string& name, const Blocks& differences) {
  if (const auto test = paired_test(differences.sums, differences.counts)) metrics[name + "_p"] = test->p;
}

/// Percentiles pass through a growing function unchanged.
std::optional<Interval> exp_of(const std::optional<Interval>& interval) {
  if (!interval) return {};
  return Interval{std::exp(interval->low), std::exp(interval->high)};
}

Blocks nll_difference(const TokenScores& scores, const TokenScores& other) {
  if (other.nll.size() != scores.nll.size()) throw Error("perplexity", "the baseline's scores are of another text or protocol");
  return {scores, [&](std::int64_t i) { return double{scores.nll[i]} - double{other.nll[i]}; }};
}

}  // namespace

void add_interval(Json& metrics, const std::string& name, double value, const std::optional<Interval>& interval) {
  metrics[name] = value;
  if (interval) metrics[name + "_ci"] = {interval->low, interval->high};
}

void add_perplexity(Json& metrics, const TokenScores& scores, std::uint64_t seed) {
  const Blocks nll(scores, [&](std::int64_t i) { return double{scores.nll[i]}; });
  const auto perplexity = perplexity_of(scores);
  add_interval(metrics, "perplexity", perplexity.value, exp_of(nll.interval(seed)));
  metrics["perplexity_standard_error"] = perplexity.standard_error;
  metrics["scored_tokens"] = perplexity.tokens;
}

void add_perplexity_ratio(Json& metrics, const TokenScores& scores, const TokenScores& baseline, std::uint64_t seed) {
  const auto difference = nll_difference(scores, baseline);
  add_interval(metrics, "perplexity_ratio", std::exp(difference.mean()), exp_of(difference.interval(seed)));
  add_p(metrics, "perplexity_ratio", difference);
}

void add_nll_difference(Json& metrics, const TokenScores& scores, const TokenScores& other, std::uint64_t seed) {
  const auto difference = nll_difference(scores, other);
  add_interval(metrics, "nll_difference", difference.mean(), difference.interval(seed));
}

void add_against(Json& metrics, const TokenScores& scores, const TokenScores& other, std::uint64_t seed) {
  const auto nll = nll_difference(scores, other);
  add_interval(metrics, "against_perplexity_ratio", std::exp(nll.mean()), exp_of(nll.interval(seed)));
  add_p(metrics, "against_perplexity_ratio", nll);
  if (scores.kl.empty() || other.kl.empty()) return;
  const auto add = [&](const std::string& name, auto value) {
    const Blocks difference(scores, [&](std::int64_t i) { return value(scores, i) - value(other, i); });
    add_interval(metrics, name, difference.mean(), difference.interval(seed));
    add_p(metrics, name, difference);
  };
  add("against_kl_nats", [](const TokenScores& of, std::int64_t i) { return double{of.kl[i]}; });
  add("against_top1_agreement", [](const TokenScores& of, std::int64_t i) { return (of.top1[i] & TokenScores::kSame) ? 1.0 : 0.0; });
}

void add_divergence(Json& metrics, const TokenScores& scores, std::uint64_t seed) {
  if (scores.kl.empty()) throw Error("divergence", "these scores hold no comparison with a baseline");
  const Blocks kl(scores, [&](std::int64_t i) { return double{scores.kl[i]}; });
  add_interval(metrics, "kl_nats", kl.mean(), kl.interval(seed));
  const Blocks same(scores, [&](std::int64_t i) { return (scores.top1[i] & TokenScores::kSame) ? 1.0 : 0.0; });
  add_interval(metrics, "top1_agreement", same.mean(), same.interval(seed));
  std::int64_t flips = 0;
  for (const auto bits : scores.top1) flips += !(bits & TokenScores::kRight) != !(bits & TokenScores::kBaselineRight);
  metrics["flips"] = flips;
}

void add_timing(Json& metrics, const std::string& name, std::span<const double> values, std::uint64_t seed) {
  add_interval(metrics, name, median({values.begin(), values.end()}), interval_of_median(values, seed));
  metrics[name + "_values"] = std::vector<double>(values.begin(), values.end());
}

}  // namespace patchbay
