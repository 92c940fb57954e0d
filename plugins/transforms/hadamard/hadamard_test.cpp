// What is particular to the Hadamard rotation: entries of one size, known matrices, and an outlier that is gone.
#include <catch2/catch.hpp>
#include <cmath>

#include "orthogonal.h"
#include "patchbay/transform.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

std::shared_ptr<const Rotation> rotation(std::int64_t n, const char* seed = "0") { return make<Transform>(spec_of("hadamard", {{"seed", seed}}))->residual_rotation(n); }

/// Q itself: the rows of 1, turned.
Matrix matrix_of(const Rotation& rotation, std::int64_t n) {
  Matrix q(n, n);
  for (std::int64_t i = 0; i < n; ++i) q.at(i, i) = 1;
  rotation.turn(q.view());
  return q;
}

void require_hadamard(const std::vector<int>& h, std::int64_t n) {
  REQUIRE(static_cast<std::int64_t>(h.size()) == n * n);
  for (std::int64_t a = 0; a < n; ++a)
    for (std::int64_t b = 0; b < n; ++b) {
      std::int64_t product = 0;
      for (std::int64_t c = 0; c < n; ++c) {
        REQUIRE(std::abs(h[a * n + c]) == 1);
        product += h[a * n + c] * h[b * n + c];
      }
      REQUIRE(product == (a == b ? n : 0));
    }
}

}  // namespace

TEST_CASE("hadamard: Paley's matrices have entries of 1 and -1, and H H^T is n times the identity") {
  for (const std::int64_t q : {3, 7, 11, 19, 23}) require_hadamard(hadamard::paley_1(q), q + 1);
  for (const std::int64_t q : {5, 13, 17}) require_hadamard(hadamard::paley_2(q), 2 * (q + 1));
}

TEST_CASE("hadamard: sizes of real models are turned by matrices whose entries all have one size") {
  for (const std::int64_t n : {64, 128, 576, 640, 896, 960, 1536}) {
    INFO(n);
    const Matrix q = matrix_of(*rotation(n), n);
    for (const float entry : q.values) REQUIRE(std::fabs(entry) == Approx(1 / std::sqrt(static_cast<double>(n))).epsilon(1e-5));
  }
  REQUIRE(hadamard::core_of(576).name == "Paley 36");
  REQUIRE(hadamard::core_of(640).name == "Paley 20");
  REQUIRE(hadamard::core_of(1536).name == "Paley 12");
  REQUIRE(hadamard::core_of(2048).order == 1);
  REQUIRE(hadamard::core_of(30).name == "DCT 15");
}

TEST_CASE("hadamard: an order of two, by hand; seeds draw other signs") {
  const Matrix q = matrix_of(*rotation(2), 2);
  const auto half = static_cast<float>(1 / std::sqrt(2.0));
  const float first = q.at(0, 0) > 0 ? half : -half, second = q.at(1, 0) > 0 ? half : -half;  // the signs of rows
  REQUIRE(q.values == std::vector<float>{first, first, second, -second});
  REQUIRE(matrix_of(*rotation(64, "1"), 64).values != matrix_of(*rotation(64, "2"), 64).values);
  REQUIRE(matrix_of(*rotation(64, "1"), 64).values == matrix_of(*rotation(64, "1"), 64).values);
}

TEST_CASE("hadamard: one large channel becomes many of moderate size") {
  Matrix row = normal_matrix(1, 576, 1.0f, 5);
  row.at(0, 100) = 400;
  rotation(576)->turn(row.view());
  for (const float value : row.values) REQUIRE(std::fabs(value) < 400 / std::sqrt(576.0f) + 6);
}

TEST_CASE("hadamard: rows of another length than it was made for are refused") {
  Matrix row(1, 32);
  REQUIRE_THROWS_WITH(rotation(64)->turn(row.view()), Contains("64") && Contains("32"));
}
