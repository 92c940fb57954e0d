/// @file weight_seed.h
/// Random choices that are the same in every run, and others for every matrix: a format is not told a weight's name, so its numbers name it.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "patchbay/tensor.h"

namespace patchbay {

/// A seed made of `seed` and all numbers of w (FNV-1a).
inline std::uint64_t seed_of(View<const float, 2> w, std::uint64_t seed) {
  constexpr std::uint64_t kPrime = 1099511628211u;
  std::uint64_t hash = (14695981039346656037u ^ seed) * kPrime;
  for (std::int64_t r = 0; r < w.shape[0]; ++r)
    for (std::int64_t c = 0; c < w.shape[1]; ++c) hash = (hash ^ std::bit_cast<std::uint32_t>(w(r, c))) * kPrime;
  return hash;
}

/// Normally distributed, mean 0 and deviation 1 (Box and Muller). The standard library's own differ from one to the next.
inline double normal_number(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };  // never 0
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace patchbay
