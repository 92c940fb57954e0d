// What GPTQ needs of linear algebra: a product of panels, and the upper factor of an inverse (G3). Both go through memory row by row and are
// sums in one order, however many threads there are.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "patchbay/backend.h"

namespace patchbay::gptq {

/// Rows of adjacent numbers in a larger matrix.
template <class Real>
struct Panel {
  Real* data;
  std::int64_t stride;
  Real* row(std::int64_t i) const { return data + i * stride; }
  Panel at(std::int64_t row, std::int64_t column) const { return {data + row * stride + column, stride}; }
};

/// c(m,n) -= a(k,m)^T b(k,n). A tile of 4 rows by one vector of c stays in registers while all k pass by.
template <class Real>
void subtract_product(std::int64_t k, std::int64_t m, std::int64_t n, Panel<const Real> a, Panel<const Real> b, Panel<Real> c) {
  typedef Real Lanes __attribute__((vector_size(32)));
  constexpr std::int64_t kLanes = 32 / sizeof(Real), kStrip = 8 * kLanes, kRows = 4;  // a strip of b stays in the first-level cache
  const auto one = [&](std::int64_t i, std::int64_t j) {
    Real sum = c.row(i)[j];
    for (std::int64_t p = 0; p < k; ++p) sum -= a.row(p)[i] * b.row(p)[j];
    c.row(i)[j] = sum;
  };
  const auto tile = [&](std::int64_t i, std::int64_t j) {
    Lanes sums[kRows], values;
    for (int r = 0; r < kRows; ++r) __builtin_memcpy(&sums[r], c.row(i + r) + j, sizeof(Lanes));
    for (std::int64_t p = 0; p < k; ++p) {
      __builtin_memcpy(&values, b.row(p) + j, sizeof(Lanes));
      const Real* const factors = a.row(p) + i;
      for (int r = 0; r < kRows; ++r) sums[r] -= factors[r] * values;
    }
    for (int r = 0; r < kRows; ++r) __builtin_memcpy(c.row(i + r) + j, &sums[r], sizeof(Lanes));
  };
  for (std::int64_t strip = 0; strip < n; strip += kStrip) {
    const std::int64_t end = std::min(strip + kStrip, n), whole = end - (end - strip) % kLanes;
    for (std::int64_t i = 0; i < m; i += kRows) {
      const bool full = i + kRows <= m;
      for (std::int64_t j = strip; full && j < whole; j += kLanes) tile(i, j);
      for (std::int64_t r = i; r < std::min(i + kRows, m); ++r)
        for (std::int64_t j = full ? whole : strip; j < end; ++j) one(r, j);
    }
  }
}

/// The same, on as many threads as it is worth.
template <class Real>
void subtract_product(std::int64_t k, std::int64_t m, std::int64_t n, Panel<const Real> a, Panel<const Real> b, Panel<Real> c, Device& device) {
  constexpr std::int64_t kWorthThreads = 1 << 18, kRows = 16;
  if (k * m * n < kWorthThreads) return subtract_product<Real>(k, m, n, a, b, c);
  device.parallel_for(m, kRows, [&](std::int64_t begin, std::int64_t end, int) {
    subtract_product<Real>(k, end - begin, n, a.at(0, begin), b, c.at(begin, 0));
  });
}

/// (G3) The lower triangle of g, 0 so far, becomes L^-1, where the upper one is that of L L^T: Gaussian elimination of [g | I], whose left part gives L^T and whose right part
/// then is L^-1. Both live in g: a row's columns from its diagonal on are still those of the left part, those before it the right part's.
/// False where g is not positive definite.
template <class Real>
bool eliminate(std::int64_t n, Panel<Real> g, Device& device) {
  constexpr std::int64_t kBlock = 48;
  std::vector<Real> right(static_cast<std::size_t>(kBlock * n));
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, n);
    for (std::int64_t i = first; i < last; ++i) std::fill(g.row(i) + first, g.row(i) + i, Real{0});  // what products left there
    // The block's own rows: each is divided by the root of its pivot, then taken off those below it.
    for (std::int64_t p = first; p < last; ++p) {
      Real* const row = g.row(p);
      if (!(row[p] > 0) || !std::isfinite(row[p])) return false;
      const Real inverse = 1 / std::sqrt(row[p]);
      for (std::int64_t j = 0; j < n; ++j) row[j] *= inverse;
      Real* const inverted = right.data() + (p - first) * n;
      std::fill(std::copy_n(row, p, inverted), inverted + n, Real{0});
      inverted[p] = inverse;
      for (std::int64_t i = p + 1; i < last; ++i) {
        const Real factor = row[i];
        for (std::int64_t j = 0; j <= p; ++j) g.row(i)[j] -= factor * inverted[j];
        for (std::int64_t j = i; j < n; ++j) g.row(i)[j] -= factor * row[j];
      }
    }
    // All rows below it, in one product for either part.
    const Panel<const Real> left{g.row(first), g.stride}, inverted{right.data(), n};
    device.parallel_for((n - last + kBlock - 1) / kBlock, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t from = last + begin * kBlock; from < std::min(last + end * kBlock, n); from += kBlock) {
        const std::int64_t rows = std::min(kBlock, n - from);
        subtract_product<Real>(last - first, rows, last, left.at(0, from), inverted, g.at(from, 0));
        subtract_product<Real>(last - first, rows, n - from, left.at(0, from), left.at(0, from), g.at(from, from));
      }
    });
    for (std::int64_t p = first; p < last; ++p) g.row(p)[p] = right[(p - first) * n + p];
  }
  return true;
}

/// (G3) The upper factor U of the inverse, H^-1 = U^T U, in fp32, from h(i, j): H turned round by rows and columns is L L^T, and L^-1 turned back
/// is upper. Empty where H is not positive definite.
template <class Real, class Hessian>
std::vector<float> upper_of_inverse(std::int64_t n, const Hessian& h, Device& device) {
  std::vector<Real> turned(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) turned[i * n + j] = static_cast<Real>(h(n - 1 - i, n - 1 - j));
  if (!eliminate<Real>(n, {turned.data(), n}, device)) return {};
  std::vector<float> u(turned.size(), 0.0f);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) u[i * n + j] = static_cast<float>(turned[(n - 1 - i) * n + (n - 1 - j)]);
  return u;
}

}  // namespace patchbay::gptq
