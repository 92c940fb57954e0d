// Orthogonal matrices whose entries all have nearly one size, for every order n = 2^k m, m odd. Formulas (H1)...(H4): README.md.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

namespace patchbay::hadamard {

/// Its square is row by row. Entries +-1 of a Hadamard matrix, or a DCT, in either case divided so that rows have length 1.
struct Core {
  std::int64_t order = 1;
  std::string name;
  std::vector<float> entries = {1.0f};
};

inline bool is_prime(std::int64_t q) {
  for (std::int64_t d = 2; d * d <= q; ++d)
    if (q % d == 0) return false;
  return q > 1;
}

/// The Jacobsthal matrix of a prime q: entry (i, j) is 1 where j - i is a square modulo q, -1 where it is none, 0 on the diagonal.
inline std::vector<int> jacobsthal(std::int64_t q) {
  std::vector<int> character(static_cast<std::size_t>(q), -1), matrix(static_cast<std::size_t>(q * q));
  character[0] = 0;
  for (std::int64_t a = 1; a < q; ++a) character[a * a % q] = 1;
  for (std::int64_t i = 0; i < q; ++i)
    for (std::int64_t j = 0; j < q; ++j) matrix[i * q + j] = character[(j - i + q) % q];
  return matrix;
}

/// (H2) Paley's first construction, of order q + 1 for a prime q = 3 (mod 4): I + S, where S has the Jacobsthal matrix, above it a row of 1
/// and before it a column of -1.
inline std::vector<int> paley_1(std::int64_t q) {
  const std::int64_t n = q + 1;
  const std::vector<int> jacobi = jacobsthal(q);
  std::vector<int> h(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      h[i * n + j] = (i == j ? 1 : 0) + (i == 0 && j > 0 ? 1 : j == 0 && i > 0 ? -1 : i > 0 ? jacobi[(i - 1) * q + j - 1] : 0);
  return h;
}

/// (H3) Paley's second construction, of order 2 (q + 1) for a prime q = 1 (mod 4): of the symmetric matrix with a zero corner, 1 along its
/// edges and the Jacobsthal matrix, each 0 becomes [1 -1; -1 -1], and each +-1 becomes +-[1 1; 1 -1].
inline std::vector<int> paley_2(std::int64_t q) {
  const std::int64_t half = q + 1, n = 2 * half;
  const std::vector<int> jacobi = jacobsthal(q);
  std::vector<int> h(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t a = i / 2, b = j / 2;
      const int entry = a == b ? 0 : a == 0 || b == 0 ? 1 : jacobi[(a - 1) * q + b - 1];
      const bool second_row = i % 2, second_column = j % 2;
      h[i * n + j] = entry == 0 ? (second_row || second_column ? -1 : 1) : (second_row && second_column ? -entry : entry);
    }
  return h;
}

inline Core of_signs(std::int64_t order, std::string name, const std::vector<int>& signs) {
  Core core{order, std::move(name), {}};
  for (const int sign : signs) core.entries.push_back(static_cast<float>(sign / std::sqrt(static_cast<double>(order))));
  return core;
}

/// (H4) The discrete cosine transform: orthogonal for every order, with entries of unequal size.
inline Core cosines(std::int64_t m) {
  Core core{m, "DCT " + std::to_string(m), {}};
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < m; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(i * (2 * j + 1)) / static_cast<double>(2 * m);
      core.entries.push_back(static_cast<float>(std::sqrt((i == 0 ? 1.0 : 2.0) / static_cast<double>(m)) * std::cos(angle)));
    }
  return core;
}

/// What is multiplied with a Sylvester matrix of order n / core.order, a power of two: the smallest Paley matrix whose order is m times a
/// power of two that divides n; a DCT of order m where there is none.
inline Core core_of(std::int64_t n) {
  std::int64_t m = n;
  while (m % 2 == 0) m /= 2;
  if (m == 1) return {1, "", {1.0f}};
  for (std::int64_t order = 4 * m; n % order == 0; order *= 2) {
    if (const std::int64_t q = order - 1; q % 4 == 3 && is_prime(q)) return of_signs(order, "Paley " + std::to_string(order), paley_1(q));
    if (const std::int64_t q = order / 2 - 1; q % 4 == 1 && is_prime(q)) return of_signs(order, "Paley " + std::to_string(order), paley_2(q));
  }
  return cosines(m);
}

}  // namespace patchbay::hadamard
