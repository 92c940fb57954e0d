/// @file bit_allocation.h
/// Which of several formats each part of a model gets, so that the sum of losses is small within a number of bits.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

/// A matrix, or the matrices of a layer, that get one format.
struct SensitiveUnit {
  std::string name;
  std::vector<std::string> labels;  ///< of its matrices
  std::vector<double> bits, losses; ///< in each candidate: of all its weights together; in any unit that adds up over units
};

/// The candidate of each unit. Losses are taken for additive, and of each unit's candidates only those on the lower convex hull of (bits, loss)
/// are used; then the steps with the greatest gain per bit come first, which leaves less than one step of the budget unused where steps are alike.
/// @throws Error where even the smallest candidates take more than `budget_bits`.
PATCHBAY_API std::vector<std::size_t> allocate_bits(std::span<const SensitiveUnit> units, double budget_bits);

}  // namespace patchbay
