// What a change of a weight does to a layer's outputs, on drawn inputs.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "patchbay/tensor.h"

namespace patchbay::awq {

/// N rows of inputs of C columns, column by column, N padded with zeros to whole strips: a product of a weight's row with all of them then
/// goes along the rows of inputs, where every compiler finds vectors.
class Inputs {
 public:
  static constexpr std::int64_t kStrip = 8;

  /// even: each row is divided by its length, if it has one.
  Inputs(View<const float, 2> x, bool even)
      : count_(x.shape[0]), rows_((x.shape[0] + kStrip - 1) / kStrip * kStrip), cols_(x.shape[1]), values_(static_cast<std::size_t>(rows_ * cols_)) {
    for (std::int64_t n = 0; n < count_; ++n) {
      double squares = 0;
      for (std::int64_t c = 0; c < cols_; ++c) squares += double{x(n, c)} * x(n, c);
      const double length = even && squares > 0 ? std::sqrt(squares) : 1;
      for (std::int64_t c = 0; c < cols_; ++c) at(n, c) = static_cast<float>(x(n, c) / length);
    }
  }
  /// (C): mean over the rows of |x_c|.
  std::vector<float> mean_sizes() {
    std::vector<float> means;
    for (std::int64_t c = 0; c < cols_; ++c) {
      double sum = 0;
      for (std::int64_t n = 0; n < count_; ++n) sum += std::fabs(at(n, c));
      means.push_back(static_cast<float>(sum / static_cast<double>(count_)));
    }
    return means;
  }
  float& at(std::int64_t n, std::int64_t c) { return values_[static_cast<std::size_t>(((n / kStrip) * cols_ + c) * kStrip + n % kStrip)]; }
  /// Column c divided by factors[c].
  void divide(const std::vector<float>& factors) {
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t c = 0; c < cols_; ++c) at(n, c) /= factors[c];
  }
  /// sum over inputs of (sum over c of x(first_column + c) * d[r][c])^2, of four rows d of `width` columns at once.
  std::array<double, 4> squared_products(const std::array<const float*, 4>& d, std::int64_t first_column, std::int64_t width) const {
    std::array<double, 4> sums{};
    for (std::int64_t strip = 0; strip < rows_ / kStrip; ++strip) {
      float y[4][kStrip] = {};
      const float* x = values_.data() + (strip * cols_ + first_column) * kStrip;
      for (std::int64_t c = 0; c < width; ++c, x += kStrip)
        for (int r = 0; r < 4; ++r)
          for (std::int64_t n = 0; n < kStrip; ++n) y[r][n] += d[r][c] * x[n];
      for (int r = 0; r < 4; ++r)
        for (const float value : y[r]) sums[r] += double{value} * value;
    }
    return sums;
  }

 private:
  std::int64_t count_, rows_, cols_;  ///< rows; those with the padding; columns
  std::vector<float> values_;  ///< (N / kStrip, C, kStrip)
};

/// Of rows [begin, end) of d(R, width), which is added to columns first_column and on of a weight: the squared error of its outputs, summed over
/// the inputs. begin is a multiple of 4.
inline void output_errors(const Inputs& inputs, View<const float, 2> d, std::int64_t first_column, std::int64_t begin, std::int64_t end, std::vector<double>& errors) {
  for (std::int64_t r = begin; r < end; r += 4) {
    std::array<const float*, 4> four;
    for (std::int64_t i = 0; i < 4; ++i) four[i] = &d(std::min(r + i, end - 1), 0);
    const auto sums = inputs.squared_products(four, first_column, d.shape[1]);
    std::copy_n(sums.begin(), std::min<std::int64_t>(4, end - r), errors.begin() + r);
  }
}

}  // namespace patchbay::awq
