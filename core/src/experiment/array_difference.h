/// @file array_difference.h
/// How far one array of floats is from another: bits, largest difference, relative error, direction.
#pragma once
#include <cstdint>
#include <span>

#include "patchbay/error.h"

namespace patchbay {

struct ArrayDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;   ///< with other bits
  double max_abs = 0;           ///< largest |b - a|; infinite where only one of the two is a finite number
  double relative_rmse = 0;     ///< root of sum (b - a)^2 over sum a^2
  double cosine = 1;            ///< between the two arrays as vectors
  std::int64_t first = -1;      ///< index of the first element with other bits
  std::int64_t largest = -1;    ///< index of the element that differs most
  float largest_a = 0, largest_b = 0;
};

/// Adds up the difference of two arrays, piece by piece.
class PATCHBAY_API DifferenceSum {
 public:
  /// The next elements of both. @throws Error when the pieces are not of one length.
  void add(std::span<const float> a, std::span<const float> b);
  ArrayDifference result() const;

 private:
  ArrayDifference found_;
  double difference_ = 0, a_ = 0, b_ = 0, product_ = 0;  ///< sums of (b - a)^2, a^2, b^2, a b
};

}  // namespace patchbay
