// Tokens drawn on the device against the host's decoders and processors, for the same random numbers, under 8 schedules.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "cuda_ops.h"
#include "gpu/device_tensor.h"
#include "patchbay/decoder.h"
#include "patchbay/gpu/emulator.h"

namespace patchbay::test {
namespace {

const auto kWorld = test_world();

struct Setting {
  float temperature = 0;
  int top_k = 0;
  double top_p = 1;
};

/// What the processors leave: (T1), (K1) and (N1) of their READMEs, by sorting.
std::vector<double> processed(std::vector<float> logits, const Setting& setting) {
  for (float& logit : logits) logit /= setting.temperature;
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  const auto forbid = [&](std::size_t first) {
    for (std::size_t i = first; i < order.size(); ++i) logits[order[i]] = -INFINITY;
  };
  if (setting.top_k > 0) forbid(setting.top_k);
  const auto softmax_of = [&] {
    return softmax(View<const float, 1>(logits.data(), {static_cast<std::int64_t>(logits.size())}));
  };
  if (setting.top_p < 1) {
    const auto probability = softmax_of();
    double share = 0;
    std::size_t kept = 0;
    do share += probability[order[kept++]];
    while (share < setting.top_p && kept < order.size());
    forbid(kept);
  }
  return softmax_of();
}
/// The host's draw() for a given random number.
int drawn(const std::vector<double>& weights, double uniform) {
  double cumulative = 0;
  int last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    cumulative += weights[i];
    last = static_cast<int>(i);
    if (uniform < cumulative) break;
  }
  return last;
}

std::vector<float> sampled(Version version, const std::vector<float>& logits, std::int64_t vocabulary,
                           const std::vector<Setting>& settings, const std::vector<double>& uniform) {
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / vocabulary;
  std::vector<float> temperature;
  std::vector<std::int32_t> top_k;
  std::vector<double> top_p;
  for (const Setting& setting : settings) {
    temperature.push_back(setting.temperature);
    top_k.push_back(setting.top_k);
    top_p.push_back(setting.top_p);
  }
  const DeviceArray<float> temperatures(temperature);
  const DeviceArray<std::int32_t> ks(top_k);
  const DeviceArray<double> ps(top_p), numbers(uniform);
  const std::int64_t gap = vocabulary % 2 ? 3 : 0;  // without one, what lies behind the last row is out of bounds
  const DeviceTensor in(DType::f32, {rows, vocabulary}, logits, gap), out(DType::i32, {rows});
  gpu::pick(gpu_launchers::sample, kWorld)(version, in.ref(), {temperatures.data(), ks.data(), ps.data(), numbers.data()},
                                           out.ref(), {});
  return out.values();
}

void check_tokens(std::mt19937& random, std::int64_t vocabulary, std::initializer_list<Version> versions) {
  const Setting settings[] = {{1, 0, 1}, {0.7f, 5, 1},   {1.5f, 0, 0.9},  {0.8f, 40, 0.95}, {1, 1, 1},
                              {1, 0, 0}, {2, 1000, 0.5}, {0.01f, 0, 0.9}, {1, 3, 0.999}};
  std::vector<float> logits;
  std::vector<Setting> rows;
  std::vector<double> uniform;
  for (const Setting& setting : settings) {
    auto row = random_values(random, vocabulary, -8, 8);
    for (float& logit : row) {
      if (random() % 3 == 0) logit = std::round(logit);  // equal logits
      if (random() % 9 == 0) logit = -INFINITY;          // forbidden ones
    }
    row[random() % vocabulary] = 3.0f;
    logits.insert(logits.end(), row.begin(), row.end());
    rows.push_back(setting);
    uniform.push_back(std::uniform_real_distribution<double>(0, 1)(random));
  }
  std::vector<float> expected;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> row(logits.begin() + r * vocabulary, logits.begin() + (r + 1) * vocabulary);
    expected.push_back(static_cast<float>(drawn(processed(row, rows[r]), uniform[r])));
  }
  INFO("vocabulary " << vocabulary);
  const std::vector<float> one(logits.begin(), logits.begin() + vocabulary);
  for (const Version version : versions)
    for_each_schedule(8, [&] {
      CHECK(sampled(version, logits, vocabulary, rows, uniform) == expected);
      CHECK(sampled(version, one, vocabulary, {rows[0]}, {uniform[0]}) == std::vector<float>{expected[0]});
    });
}

TEST_CASE("cuda sampling: the host's tokens for the same random numbers") {
  std::mt19937 random(1);
  for (const std::int64_t vocabulary : {1, 7, 300}) check_tokens(random, vocabulary, {Version::naive, Version::fast});
}
TEST_CASE("cuda sampling: the host's tokens from a vocabulary of several numbers per thread") {
  std::mt19937 random(2);
  check_tokens(random, 2000, {Version::fast});
}

TEST_CASE("cuda sampling: the ends of the random numbers' range give the first and the last token that may come") {
  const std::vector<float> logits = {-INFINITY, 1, 1, -INFINITY, 1, -INFINITY, 0, 0, 0, 0, 0, 0};
  const std::vector<Setting> settings = {{1, 0, 1}, {1, 0, 1}};
  CHECK(sampled(Version::fast, logits, 6, settings, {0.0, 0.0}) == std::vector<float>{1, 0});
  for (const double largest : {1 - 0x1p-53, 1.0})
    CHECK(sampled(Version::fast, logits, 6, settings, {largest, largest}) == std::vector<float>{4, 5});
  const Setting all_but_one{1, 5, 1};
  CHECK(sampled(Version::fast, logits, 6, {all_but_one, all_but_one}, {1 - 0x1p-53, 1 - 0x1p-53}) == std::vector<float>{4, 4});
}

TEST_CASE("cuda sampling: a random number of 0 passes over what may not come, in a thread's own run too") {
  std::vector<float> logits(1030, -1.0f);  // runs of 3 tokens
  logits[1] = 3;
  CHECK(sampled(Version::fast, logits, 1030, {{1, 1, 1}}, {0.0}) == std::vector<float>{1});
}

TEST_CASE("cuda sampling: a search among logits of both signs below 1 in size, whose keys begin alike") {
  std::mt19937 random(3);
  const std::vector<float> logits = random_values(random, 60, -1, 1);
  const Setting setting{1, 20, 1};
  for (const double uniform : {0.01, 0.5, 0.99}) {
    const auto expected = static_cast<float>(drawn(processed(logits, setting), uniform));
    for (const Version version : {Version::naive, Version::fast})
      CHECK(sampled(version, logits, 60, {setting}, {uniform}) == std::vector<float>{expected});
  }
}

TEST_CASE("cuda sampling: temperature 0 is argmax, the lowest index among equals; rows that cannot be ordered give -1") {
  for (const Version version : {Version::naive, Version::fast}) {
    const std::vector<float> logits = {1,     5,    5,   // equals
                                       -0.0f, 0.0f, -1,  // -0 equals 0
                                       -3,    -2,   -INFINITY, INFINITY, 7, 0, NAN, 9, 0, -INFINITY, -INFINITY, -INFINITY};
    for_each_schedule(8, [&] {
      CHECK(sampled(version, logits, 3, std::vector<Setting>(6), std::vector<double>(6)) ==
            std::vector<float>{1, 0, 1, 0, -1, -1});
    });
    CHECK(sampled(version, logits, 3, std::vector<Setting>(6, Setting{1, 0, 1}), std::vector<double>(6, 0.5))[3] == 0);
    const DeviceTensor in(DType::f32, {6, 3}, logits), out(DType::i32, {6});
    gpu::pick(gpu_launchers::sample, kWorld)(version, in.ref(), {}, out.ref(), {});  // no settings at all: greedy
    CHECK(out.values() == std::vector<float>{1, 0, 1, 0, -1, -1});
  }
}

TEST_CASE("cuda sampling: the share of each token is its probability") {
  const std::vector<float> one = {0.5f, 2, -1, 1, -INFINITY, 0};
  const std::int64_t draws = 200;
  std::vector<float> logits;
  std::vector<double> uniform;
  for (std::int64_t i = 0; i < draws; ++i) {
    logits.insert(logits.end(), one.begin(), one.end());
    uniform.push_back((static_cast<double>(i) + 0.5) / draws);  // evenly spread: shares are exact to one draw
  }
  std::vector<double> share(6);
  for (const float token : sampled(Version::fast, logits, 6, std::vector<Setting>(draws, Setting{1, 4, 1}), uniform))
    share[token] += 1.0 / draws;
  const auto expected = processed(one, {1, 4, 1});
  for (int i = 0; i < 6; ++i) CHECK(std::fabs(share[i] - expected[i]) < 2.0 / draws);
}

TEST_CASE("cuda softmax: the formula in double, -inf and rows of one included") {
  std::mt19937 random(2);
  for (const Version version : {Version::naive, Version::block, Version::fast}) {
    for (const auto& [rows, cols, gap] : {std::array<std::int64_t, 3>{1, 1, 0}, {3, 7, 2}, {2, 64, 0}, {2, 1000, 4}}) {
      auto x = random_values(random, rows * cols, -20, 20);
      for (std::int64_t i = 1; i < rows * cols; i += 5) x[i] = -INFINITY;
      x[0] = 0.0f;  // all that one thread sees
      for (std::int64_t c = 0; c < cols; ++c) x[(rows - 1) * cols + c] -= 300;  // a maximum that began at 0 would leave no weight
      std::vector<float> expected(x.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto probability = softmax(View<const float, 1>(&x[r * cols], {cols}));
        std::copy(probability.begin(), probability.end(), expected.begin() + r * cols);
      }
      const DeviceTensor in(DType::f32, {rows, cols}, x, gap);
      for_each_schedule(8, [&] {
        const DeviceTensor out(DType::f32, {rows, cols}, gap);
        gpu::pick(gpu_launchers::softmax, kWorld)(version, in.ref(), out.ref(), {});
        CHECK(difference(out.values(), expected) < 1e-6);
        CHECK(out.gaps_intact());
      });
    }
  }
}

}  // namespace
}  // namespace patchbay::test
