// What is particular to noise: an error of the stated size, the same in every run.
#include <catch2/catch.hpp>
#include <cmath>

#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

Matrix noisy(const Matrix& w, const std::string& size, const std::string& storage = "fp32", const std::string& seed = "0") {
  Matrix decoded(w.rows, w.cols), promised(w.rows, w.cols);
  const auto format = make<WeightFormat>(spec_of("noise", {{"size", size}, {"storage", storage}, {"seed", seed}}));
  format->decode(round_to_format(*format, w, host_backend().device(), promised), 0, decoded.view());
  return decoded;
}
/// Mean, deviation and fourth moment of (w' - w) / rms(w).
struct Moments { double mean = 0, deviation = 0, fourth = 0; };
Moments error_of(const Matrix& w, const Matrix& decoded) {
  double squares = 0;
  for (const float value : w.values) squares += static_cast<double>(value) * value;
  const double rms = std::sqrt(squares / static_cast<double>(w.values.size())), n = static_cast<double>(w.values.size());
  Moments m;
  for (std::size_t i = 0; i < w.values.size(); ++i) {
    const double error = (static_cast<double>(decoded.values[i]) - w.values[i]) / rms;
    m.mean += error / n;
    m.deviation += error * error / n;
    m.fourth += error * error * error * error / n;
  }
  m.fourth /= m.deviation * m.deviation;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

}  // namespace

TEST_CASE("noise: the error has the stated size, and is normally distributed") {
  const Matrix w = normal_matrix(512, 256, 0.03f, 1, 0.01f);
  for (const char* storage : {"fp16", "fp32"}) {
    for (const double size : {0.003, 0.01, 0.1, 1.0}) {
      INFO(storage << ", size " << size);
      const Moments error = error_of(w, noisy(w, std::to_string(size), storage));
      CHECK(error.deviation == Approx(size).epsilon(0.01));
      CHECK(std::fabs(error.mean) < 0.02 * size);
      CHECK(error.fourth == Approx(3.0).epsilon(0.05));
    }
  }
}

TEST_CASE("noise: the same error in every run, another for another seed and another weight") {
  const Matrix w = normal_matrix(16, 96, 0.03f, 1);
  Matrix other = w;
  other.at(3, 40) += 0.01f;
  REQUIRE(noisy(w, "0.1").values == noisy(w, "0.1").values);
  REQUIRE(noisy(w, "0.1").values != noisy(w, "0.1", "fp32", "1").values);
  const Matrix a = noisy(w, "0.1"), b = noisy(other, "0.1");
  int same = 0;
  for (std::int64_t r = 0; r < 16; ++r) for (std::int64_t c = 32; c < 64; ++c) same += a.at(r, c) - w.at(r, c) == b.at(r, c) - other.at(r, c) ? 1 : 0;
  CHECK(same < 16);  // of 512: those columns share a draw with the one that changed
  Matrix two(16, 64);  // two equal tiles of one matrix
  for (std::int64_t r = 0; r < 16; ++r) for (std::int64_t c = 0; c < 64; ++c) two.at(r, c) = w.at(r, c % 32);
  CHECK(noisy(two, "0.1").at(0, 0) == noisy(two, "0.1").at(0, 32));  // as documented: what has no name is told apart by its numbers alone
}

TEST_CASE("noise: without a size weights are stored as they are") {
  const Matrix w = normal_matrix(16, 96, 0.03f, 1);
  REQUIRE(noisy(w, "0").values == w.values);
  REQUIRE_THROWS_WITH(make<WeightFormat>(spec_of("noise", {{"size", "-1"}})), Catch::Contains("0 to 10"));
  Matrix large(1, 32);
  large.at(0, 3) = 1e5f;
  REQUIRE_THROWS_WITH(noisy(large, "0.1", "fp16"), Catch::Contains("65504"));
  REQUIRE(make<WeightFormat>(spec_of("noise", {{"storage", "fp32"}}))->bits_per_weight(16, 96) == 32);
}
