// Loops without a sum, where the compiler vectorises as well as a hand: each kernel set compiles its own copy, and since
// contraction is off they all round alike.
#pragma once
#include <cstdint>

namespace {

void add_rows(float* x, const float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += y[i];
}

/// (B3): (a, b) -> (a cos - b sin, b cos + a sin).
void rotate_pairs(float* x, const float* cosines, const float* sines, std::int64_t pairs, bool interleaved) {
  if (interleaved) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = a * cosines[i] - b * sines[i];
      x[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
  } else {
    float* const first = x;
    float* const second = x + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float a = first[i], b = second[i];
      first[i] = a * cosines[i] - b * sines[i];
      second[i] = b * cosines[i] + a * sines[i];
    }
  }
}

}  // namespace
