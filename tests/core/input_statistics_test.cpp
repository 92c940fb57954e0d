// Statistics of a layer's inputs against plain sums in fp64.
#include "quantize/input_statistics.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "patchbay/backend.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

constexpr std::int64_t kRows = 1300, kCols = 250;  // neither a whole number of chunks nor of panels

/// Every column of another size, neighbours alike.
Matrix inputs() {
  Matrix x = normal_matrix(kRows, kCols, 1.0f, 3);
  for (std::int64_t t = 0; t < kRows; ++t)
    for (std::int64_t c = 1; c < kCols; ++c) x.at(t, c) = 0.5f * x.at(t, c - 1) + x.at(t, c) * static_cast<float>(1 + c % 7);
  return x;
}

}  // namespace

TEST_CASE("statistics: moments, largest and Hessian are the sums they are called by, however rows come in") {
  const Matrix x = inputs();
  InputStatistics gathered(kCols, {true, true, 0, false}, host_backend().ops());
  for (std::int64_t first = 0, step = 1; first < kRows; first += step, step = 2 * step + 1) gathered.add(x.view().rows(first, std::min(first + step, kRows)));
  const Statistics statistics = gathered.result();
  REQUIRE(statistics.tokens == kRows);
  REQUIRE(statistics.inputs.size() == 0);
  std::vector<double> moments(kCols);
  double largest_error = 0;
  for (std::int64_t i = 0; i < kCols; ++i) {
    double &moment = moments[i], largest = 0;
    for (std::int64_t t = 0; t < kRows; ++t) {
      moment += double{x.at(t, i)} * x.at(t, i) / kRows;
      largest = std::max(largest, std::fabs(double{x.at(t, i)}));
    }
    REQUIRE(statistics.second_moment[i] == Approx(moment).epsilon(1e-6));
    REQUIRE(statistics.largest[i] == Approx(largest).epsilon(0).margin(0));
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::int64_t t = 0; t < kRows; ++t) sum += 2.0 * x.at(t, i) * x.at(t, j) / kRows;
      largest_error = std::max(largest_error, std::fabs(statistics.hessian(i, j) - sum) / (2 * std::sqrt(moments[i] * moments[j])));
      REQUIRE(statistics.hessian(i, j) == statistics.hessian(j, i));
    }
  }
  REQUIRE(largest_error < 3e-6);
}

TEST_CASE("statistics: the rows that are kept are at most as many as were asked for, and lie evenly") {
  for (const std::int64_t rows : {5, 16, 17, 100, 1000}) {
    Matrix x(rows, 1);
    for (std::int64_t t = 0; t < rows; ++t) x.at(t, 0) = static_cast<float>(t);
    InputStatistics gathered(1, {false, false, 16, false}, host_backend().ops());
    for (std::int64_t first = 0; first < rows; first += 7) gathered.add(std::as_const(x).view().rows(first, std::min(first + 7, rows)));
    const View<const float, 2> kept = gathered.result().inputs;
    REQUIRE(kept.shape[0] == (rows <= 16 ? rows : kept.shape[0]));
    REQUIRE(kept.shape[0] <= 16);
    REQUIRE(kept.shape[0] >= std::min<std::int64_t>(rows, 8));
    const float step = kept(1, 0) - kept(0, 0);
    for (std::int64_t i = 0; i < kept.shape[0]; ++i) REQUIRE(kept(i, 0) == static_cast<float>(i) * step);
  }
}

TEST_CASE("statistics: where no row came by there are none") {
  InputStatistics gathered(4, {true, true, 8, false}, host_backend().ops());
  const Statistics statistics = gathered.result();
  REQUIRE(statistics.tokens == 0);
  REQUIRE(statistics.second_moment.size() + statistics.hessian.size() + statistics.inputs.size() == 0);
}
