#include "experiment/bootstrap.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "experiment/metrics.h"
#include <nlohmann/json.hpp>

using namespace patchbay;

namespace {

std::vector<double> normal_values(int n, double mean, double sd, std::mt19937_64& engine) {
  std::normal_distribution<double> draw(mean, sd);
  std::vector<double> values(n);
  for (auto& value : values) value = draw(engine);
  return values;
}

TokenScores scores_of(std::vector<float> nll, std::int64_t windows) {
  const auto n = static_cast<std::int64_t>(nll.size());
  TokenScores scores{windows, n / windows, std::move(nll), {}, std::vector<std::uint8_t>(n)};
  return scores;
}

}  // namespace

TEST_CASE("the interval of a mean has the width that theory gives") {
  std::mt19937_64 engine(1);
  const auto values = normal_values(400, 5.0, 2.0, engine);
  const std::vector<double> ones(values.size(), 1.0);
  const auto interval = *interval_of_mean(values, ones, 7);
  const double expected = 1.96 * 2.0 / std::sqrt(400.0);
  CHECK((interval.high - interval.low) / 2 == Approx(expected).epsilon(0.12));
  CHECK(interval.low < 5.0);
  CHECK(interval.high > 5.0);
}

TEST_CASE("95% intervals cover the truth about 95 times of 100") {
  std::mt19937_64 engine(2);
  int covered = 0;
  constexpr int kExperiments = 300;
  const std::vector<double> ones(60, 1.0);
  for (int i = 0; i < kExperiments; ++i) {
    const auto values = normal_values(60, -1.0, 3.0, engine);
    const auto interval = *interval_of_mean(values, ones, static_cast<std::uint64_t>(i));
    covered += interval.low <= -1.0 && -1.0 <= interval.high;
  }
  CHECK(covered > 0.90 * kExperiments);
  CHECK(covered < 0.98 * kExperiments);
}

TEST_CASE("equal seeds draw equal units; another seed draws others") {
  const std::vector<double> values = {1, 2, 4, 8, 16, 32, 64, 128}, ones(8, 1.0);
  const auto a = *interval_of_mean(values, ones, 3), b = *interval_of_mean(values, ones, 3);
  CHECK(a.low == b.low);
  CHECK(a.high == b.high);
  std::vector<std::vector<std::int32_t>> drawn[2];
  for (int i = 0; i < 2; ++i)
    bootstrap(8, 3 + i, [&](std::span<const std::int32_t> units) {
      drawn[i].emplace_back(units.begin(), units.end());
      return 0.0;
    });
  CHECK(drawn[0] != drawn[1]);
  CHECK(drawn[0].size() == kResamples);
}

TEST_CASE("units weigh by their counts, and medians are medians") {
  const std::vector<double> sums = {10, 10}, counts = {10, 10};
  const auto same = *interval_of_mean(sums, counts, 0);
  CHECK(same.low == 1.0);
  CHECK(same.high == 1.0);
  const std::vector<double> accepted = {0, 8}, drafted = {0, 10};  // nothing drafted for the first prompt: it says nothing
  CHECK(interval_of_mean(accepted, drafted, 0)->low == 0.8);
  CHECK(interval_of_mean(accepted, drafted, 0)->high == 0.8);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  const std::vector<double> one = {5};
  CHECK_FALSE(interval_of_median(one, 0));
  CHECK_FALSE(interval_of_mean(one, one, 0));
  const std::vector<double> repeats = {10, 11, 12, 13, 50};
  const auto interval = *interval_of_median(repeats, 0);
  CHECK(interval.low >= 10);
  CHECK(interval.high <= 50);
  CHECK_THROWS_AS(bootstrap(0, 0, [](std::span<const std::int32_t>) { return 0.0; }), Error);
}

TEST_CASE("a paired ratio is far narrower than the two perplexities it is made of") {
  std::mt19937_64 engine(3);
  std::normal_distribution<float> text(3.0f, 1.5f), noise(0.02f, 0.02f);
  std::vector<float> base(2560), run(2560);
  for (std::size_t i = 0; i < base.size(); ++i) {
    base[i] = text(engine);
    run[i] = base[i] + noise(engine);
  }
  Json metrics;
  const auto baseline = scores_of(base, 5);
  add_perplexity(metrics, scores_of(run, 5), 0);
  add_perplexity_ratio(metrics, scores_of(run, 5), baseline, 0);
  CHECK(metrics["perplexity_ratio"].get<double>() == Approx(std::exp(0.02)).epsilon(0.002));
  const auto width = [&](const char* name) { return metrics[name][1].get<double>() - metrics[name][0].get<double>(); };
  CHECK(width("perplexity_ratio_ci") < 0.05 * width("perplexity_ci") / metrics["perplexity"].get<double>());
  CHECK(metrics["perplexity_ci"][0] < metrics["perplexity"]);
  CHECK(metrics["perplexity_ci"][1] > metrics["perplexity"]);
  CHECK(metrics["perplexity_ratio_p"] < 1e-6);
  Json same;
  add_perplexity_ratio(same, baseline, baseline, 0);
  CHECK(same["perplexity_ratio"] == 1.0);
  CHECK(same["perplexity_ratio_p"] == 1.0);
}

TEST_CASE("divergence metrics count what they say") {
  auto scores = scores_of({1, 1, 1, 1}, 1);
  scores.kl = {0.0f, 0.1f, 0.2f, 0.1f};
  using S = TokenScores;
  scores.top1 = {S::kSame | S::kRight | S::kBaselineRight, S::kSame, S::kRight, S::kBaselineRight};
  Json metrics;
  add_divergence(metrics, scores, 0);
  CHECK(metrics["kl_nats"].get<double>() == Approx(0.1));
  CHECK(metrics["top1_agreement"] == 0.5);
  CHECK(metrics["flips"] == 2);
  scores.kl.clear();
  CHECK_THROWS_AS(add_divergence(metrics, scores, 0), Error);
}
