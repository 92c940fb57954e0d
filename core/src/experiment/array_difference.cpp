#include "experiment/array_difference.h"

#include <bit>
#include <cmath>
#include <limits>

namespace patchbay {

void DifferenceSum::add(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) throw Error("difference", "arrays of different lengths");
  for (std::size_t i = 0; i < a.size(); ++i, ++found_.elements) {
    const double x = a[i], y = b[i];
    a_ += x * x;
    b_ += y * y;
    product_ += x * y;
    if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) continue;
    if (found_.differing++ == 0) found_.first = found_.elements;
    double distance = std::abs(y - x);
    if (std::isnan(distance)) distance = std::numeric_limits<double>::infinity();
    difference_ += distance * distance;
    if (found_.largest >= 0 && distance <= found_.max_abs) continue;
    found_.max_abs = distance;
    found_.largest = found_.elements;
    found_.largest_a = a[i];
    found_.largest_b = b[i];
  }
}

ArrayDifference DifferenceSum::result() const {
  ArrayDifference result = found_;
  if (found_.differing == 0) return result;
  // Against nothing but zeros every difference is infinitely large; a zero of another sign is none.
  result.relative_rmse = difference_ == 0 ? 0 : std::sqrt(difference_ / a_);
  if (std::isnan(result.relative_rmse)) result.relative_rmse = std::numeric_limits<double>::infinity();
  result.cosine = a_ == b_ && difference_ == 0 ? 1 : product_ / std::sqrt(a_ * b_);
  return result;
}

}  // namespace patchbay
