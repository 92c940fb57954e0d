// What every logits processor must do, over every one found and each value of its parameters; and what each of ours is, against
// its definition in plain words.
#include <catch2/catch.hpp>
#include <limits>

#include "fake_decoders.h"
#include "plugin_variants.h"

using namespace patchbay;
using test::spec_of;

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<float> random_row(Rng& rng, int vocabulary) {
  std::vector<float> row;
  for (int v = 0; v < vocabulary; ++v) {
    const double u = rng.uniform();
    row.push_back(u < 0.1 ? kNone : static_cast<float>(std::floor(u * 40) / 4 - 5));  // steps of 1/4: ties are common
  }
  if (std::count(row.begin(), row.end(), kNone) == vocabulary) row[0] = 1;
  return row;
}

std::vector<float> applied(LogitsProcessor& processor, std::vector<float> row) {
  processor.apply({row.data(), {static_cast<std::int64_t>(row.size())}});
  return row;
}

std::vector<float> applied(const PluginSpec& spec, std::vector<float> row) { return applied(*make<LogitsProcessor>(spec), row); }

/// Token ids, likeliest first, ties by lower id.
std::vector<int> ranked(const std::vector<float>& row) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  return order;
}

}  // namespace

TEST_CASE("processors: one token stays, none comes back, equal input gives equal output") {
  Rng rng(1);
  for (const auto& variant : test::variants("processors")) {
    INFO(variant.label);
    const auto processor = make<LogitsProcessor>(variant.spec), other = make<LogitsProcessor>(variant.spec);
    for (int i = 0; i < 200; ++i) {
      const auto row = random_row(rng, 1 + i % 40);
      const auto result = applied(*processor, row);
      CHECK(std::any_of(result.begin(), result.end(), [](float logit) { return std::isfinite(logit); }));
      for (std::size_t v = 0; v < row.size(); ++v) {
        CHECK(result[v] == result[v]);
        if (row[v] == kNone) CHECK(result[v] == kNone);
      }
      CHECK(applied(*other, row) == result);
      const auto token = static_cast<Token>(rng.uniform() * static_cast<double>(row.size()));
      processor->push(token);
      other->push(token);
    }
  }
}

TEST_CASE("processors: what is pushed and taken back leaves no trace") {
  Rng rng(2);
  for (const auto& variant : test::variants("processors")) {
    INFO(variant.label);
    const auto processor = make<LogitsProcessor>(variant.spec), straight = make<LogitsProcessor>(variant.spec);
    for (int i = 0; i < 50; ++i) {
      const int n = static_cast<int>(rng.uniform() * 6);
      for (int j = 0; j < n; ++j) processor->push(static_cast<Token>(rng.uniform() * 20));
      applied(*processor, random_row(rng, 20));
      processor->rollback(n);
      const auto row = random_row(rng, 20);
      CHECK(applied(*processor, row) == applied(*straight, row));
      processor->push(i % 20);
      straight->push(i % 20);
    }
  }
}

TEST_CASE("processors: a row without a choice, or with what is no number, is an error or left alone") {
  for (const auto& variant : test::variants("processors")) {
    INFO(variant.label);
    for (const std::vector<float>& row : {std::vector<float>{kNone, kNone, kNone}, {1, std::nanf(""), 2}}) {
      try {
        const auto result = applied(variant.spec, row);
        for (std::size_t v = 0; v < row.size(); ++v) CHECK((result[v] == row[v] || std::isnan(result[v]) == std::isnan(row[v])));
      } catch (const Error& error) {
        CHECK(error.where() == "logits");
      }
    }
  }
}

TEST_CASE("temperature divides") {
  CHECK(applied(spec_of("temperature", {{"value", "0.5"}}), {1, -2, kNone, 3}) == std::vector<float>{2, -4, kNone, 6});
  CHECK(applied(spec_of("temperature", {{"value", "1"}}), {0.1f, 0.3f}) == std::vector<float>{0.1f, 0.3f});
  CHECK_THROWS_WITH(make<LogitsProcessor>(spec_of("temperature", {{"value", "0"}})), Catch::Contains("temperature"));
}

TEST_CASE("top_k keeps the k likeliest, ties by lower id") {
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    const auto row = random_row(rng, 30);
    const int k = 1 + i % 35;
    auto expected = row;
    const auto order = ranked(row);
    for (std::size_t r = k; r < order.size(); ++r) expected[order[r]] = kNone;
    CHECK(applied(spec_of("top_k", {{"k", std::to_string(k)}}), row) == expected);
  }
}

TEST_CASE("top_p keeps the smallest set that holds p, ties by lower id") {
  CHECK(applied(spec_of("top_p", {{"p", "0"}}), {1, 3, 3, 0}) == std::vector<float>{kNone, 3, kNone, kNone});
  CHECK(applied(spec_of("top_p", {{"p", "1"}}), {1, 90, -90, 0}) == std::vector<float>{1, 90, -90, 0});
  // Four equal tokens: 0.5 is held by just two of them, 0.51 takes a third.
  CHECK(applied(spec_of("top_p", {{"p", "0.5"}}), {2, 2, 2, 2}) == std::vector<float>{2, 2, kNone, kNone});
  CHECK(applied(spec_of("top_p", {{"p", "0.51"}}), {2, 2, 2, 2}) == std::vector<float>{2, 2, 2, kNone});
  Rng rng(4);
  for (int i = 0; i < 300; ++i) {
    const auto row = random_row(rng, 30);
    const double p = 0.05 + 0.003 * i;
    const auto probability = test::plain_softmax(row);
    const auto order = ranked(row);
    auto expected = row;
    double before = 0;
    for (const int v : order) {
      if (before >= p) expected[v] = kNone;
      before += probability[v];
    }
    CHECK(applied(spec_of("top_p", {{"p", std::to_string(p)}}), row) == expected);
  }
}
