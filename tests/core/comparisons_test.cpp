// Many comparisons with one baseline: p-values against tables from elsewhere, and the error of a whole family by simulation.
#include "experiment/comparisons.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

using namespace patchbay;

namespace {

std::vector<double> normal_values(int n, double mean, std::mt19937_64& engine) {
  std::normal_distribution<double> draw(mean, 1.0);
  std::vector<double> values(n);
  for (auto& value : values) value = draw(engine);
  return values;
}

double p_of(const std::vector<double>& values) {
  const std::vector<double> ones(values.size(), 1.0);
  return paired_test(values, ones)->p;
}

Json record(const std::string& hash, double perplexity_p, double decode_p, const std::string& scores) {
  return {{"hash", hash}, {"evaluation", {{"scores", scores}}}, {"metrics", {{"perplexity_ratio_p", perplexity_p}, {"decode_speed_ratio_p", decode_p}}}};
}

}  // namespace

TEST_CASE("Student's t is that of scipy 1.17.1") {
  // 2 * scipy.stats.t.sf(t, degrees)
  struct Value { double t; std::int64_t degrees; double p; };
  for (const auto& [t, degrees, p] : std::vector<Value>{
      {0.5, 1, 0.704832764699133}, {12.7, 1, 0.0500243276893442}, {4.3, 2, 0.0500571541170916}, {50, 2,
      0.000399760159888081}, {2.5, 3, 0.0877066470080656}, {2.0, 5, 0.101939478829858}, {30, 5,
      7.71864862049605e-07}, {3.1, 10, 0.0112506572160834}, {2.0, 159, 0.0472030508357924}, {6.5, 159,
      9.86183350119768e-10}, {1.0, 1000, 0.317552418084673}, {3.9, 10001, 9.68219957982378e-05}, {0.0, 7, 1}}) {
    INFO(t << " " << degrees);
    CHECK(student_t_two_sided(t, degrees) == Approx(p).epsilon(1e-6).margin(1e-14));
    CHECK(student_t_two_sided(-t, degrees) == student_t_two_sided(t, degrees));
  }
  // scipy.stats.t.ppf(0.975, degrees)
  for (const auto& [degrees, bound] : std::vector<std::pair<int, double>>{{1, 12.7062047361747}, {2, 4.30265272974946}, {5, 2.57058183563631}, {159, 1.97499621276748}})
    CHECK(student_t_bound(0.95, degrees) == Approx(bound).epsilon(1e-9));
  CHECK_THROWS_AS(student_t_two_sided(1, 0), Error);
}

TEST_CASE("the paired test is scipy's where all units weigh the same, and knows nothing from one unit") {
  // scipy.stats.ttest_1samp([0.3, -0.1, 0.4, 0.2, 0.25], 0), and its 95% interval
  const std::vector<double> values = {0.3, -0.1, 0.4, 0.2, 0.25}, ones(5, 1.0);
  const auto test = *paired_test(values, ones);
  CHECK(test.mean == Approx(0.21));
  CHECK(test.p == Approx(0.0673227524994253).epsilon(1e-9));
  CHECK(test.interval.low == Approx(-0.02394742293399).epsilon(1e-9));
  CHECK(test.interval.high == Approx(0.44394742293399).epsilon(1e-9));
  CHECK_FALSE(paired_test(std::vector<double>{1}, std::vector<double>{1}));
  CHECK(p_of({0, 0, 0}) == 1);           // bit for bit the same
  CHECK(p_of({0.5, 0.5, 0.5}) == 0);     // the same difference each time
}

TEST_CASE("Holm's adjusted p-values are those of R's p.adjust") {
  // p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.5), "holm"), and the worked example of Holm (1979) by hand: m p(1), max(.., (m-1) p(2)), ...
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005, 0.5}, adjusted = {0.04, 0.09, 0.09, 0.025, 0.5};
  const auto got = holm_adjusted(p);
  for (std::size_t i = 0; i < p.size(); ++i) CHECK(got[i] == Approx(adjusted[i]));
  CHECK(holm_adjusted(std::vector<double>{}).empty());
  CHECK(holm_adjusted(std::vector<double>{0.9, 0.8}) == std::vector<double>{1, 1});
}

TEST_CASE("twenty comparisons of equals: a table has a wrong mark in 5 of 100 cases, not in 64; a planted effect is found") {
  constexpr int kTables = 2000, kRows = 20, kUnits = 40;
  std::mt19937_64 engine(11);
  int naive = 0, corrected = 0, found = 0;
  for (int table = 0; table < kTables; ++table) {
    std::vector<double> p;
    for (int row = 0; row < kRows; ++row) p.push_back(p_of(normal_values(kUnits, 0, engine)));
    const auto has_small = [](const std::vector<double>& values) { return std::ranges::any_of(values, [](double value) { return value < kFamilyError; }); };
    naive += has_small(p);
    corrected += has_small(holm_adjusted(p));
    p[7] = p_of(normal_values(kUnits, 1.0, engine));  // an effect of one standard deviation
    found += holm_adjusted(p)[7] < kFamilyError;
  }
  CHECK(naive > 0.55 * kTables);  // 1 - 0.95^20 = 0.64
  CHECK(corrected > 0.035 * kTables);
  CHECK(corrected < 0.065 * kTables);
  CHECK(found > 0.95 * kTables);
}

TEST_CASE("differences per token are skewed and have heavy tails: the error stays near its bound, and few rounds are enough for a test") {
  constexpr int kTables = 1000, kRows = 20;
  std::mt19937_64 engine(12);
  std::lognormal_distribution<double> skewed(0, 1);
  std::student_t_distribution<double> heavy(3);
  int blocks = 0, rounds = 0;
  for (int table = 0; table < kTables; ++table) {
    std::vector<double> of_blocks, of_rounds;
    for (int row = 0; row < kRows; ++row) {
      std::vector<double> sums(160, 0.0);  // of 32 tokens each, as in the quick start
      for (auto& sum : sums)
        for (int token = 0; token < 32; ++token) sum += heavy(engine) + 0.2 * (skewed(engine) - std::exp(0.5));
      of_blocks.push_back(p_of(sums));
      of_rounds.push_back(p_of(normal_values(3, 0, engine)));
    }
    blocks += std::ranges::min(holm_adjusted(of_blocks)) < kFamilyError;
    rounds += std::ranges::min(holm_adjusted(of_rounds)) < kFamilyError;
  }
  CHECK(blocks < 0.075 * kTables);
  CHECK(rounds > 0.03 * kTables);  // three rounds can reach p < 0.05/20, which three resampled rounds cannot
  CHECK(rounds < 0.07 * kTables);
}

TEST_CASE("the records of a table are one family: the noise row and the baseline are none of it, one scored text is one comparison") {
  std::vector<Json> records = {record("base", 1, 1, "a"), record("again", 0.001, 0.001, "n"), record("x", 0.01, 0.2, "s"), record("y", 0.01, 0.02, "s"),
                               record("z", 0.5, 0.4, "t")};
  records[0]["baseline"] = true;
  records[1]["noise"] = true;
  add_adjusted_p(records);
  // Five comparisons: s 0.01, t 0.5, and the speeds of x, y, z.
  CHECK(records[2]["metrics"]["perplexity_ratio_p_adjusted"].get<double>() == Approx(5 * 0.01));
  CHECK(records[3]["metrics"]["perplexity_ratio_p_adjusted"].get<double>() == Approx(5 * 0.01));
  CHECK(records[3]["metrics"]["decode_speed_ratio_p_adjusted"].get<double>() == Approx(4 * 0.02));
  CHECK(records[2]["metrics"]["decode_speed_ratio_p_adjusted"].get<double>() == Approx(3 * 0.2));
  for (int i : {0, 1}) CHECK_FALSE(records[i]["metrics"].contains("perplexity_ratio_p_adjusted"));
}
