/// @file input_statistics.h
/// Statistics of one layer's inputs, gathered row by row in the order in which rows come.
#pragma once
#include <vector>

#include "patchbay/statistics.h"

namespace patchbay {

class Ops;

/// C features. Takes room for what is needed alone: the Hessian, C x C, is the large one.
class PATCHBAY_API InputStatistics {
 public:
  InputStatistics(std::int64_t cols, const Needs& needs, Ops& ops);
  /// x(T,C), fp32 of the host.
  void add(View<const float, 2> x);
  /// Of all rows; ends the gathering. The views live as long as this object.
  Statistics result();

 private:
  void add_moments(View<const float, 2> x);
  void add_hessian(View<const float, 2> x);
  void keep_rows(View<const float, 2> x);

  const std::int64_t cols_;
  const Needs needs_;
  Ops& ops_;
  std::int64_t rows_ = 0;
  std::vector<double> squares_;                    ///< (C): sum of x^2
  std::vector<float> second_moment_, largest_;     ///< (C)
  std::vector<float> hessian_;                     ///< (C,C): sum of x x^T up to the diagonal, until result()
  std::vector<float> kept_;                        ///< (N,C): every stride_-th row
  std::int64_t stride_ = 1;
  std::vector<float> transposed_, products_;
};

}  // namespace patchbay
