/// @file eight_bit_scales.h
/// Scales of codes of 8 bits, floats (format fp8) and integers (w8a8): of weights, and of inputs where calibration gives them.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "patchbay/rounded_inputs.h"
#include "patchbay/statistics.h"
#include "patchbay/tensor.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// largest / largest_code; never 0, and never so small that dividing by it overflows. 1 where all is 0.
inline float usable_scale(float largest, float largest_code) {
  return largest > 0 ? std::max(largest / largest_code, std::numeric_limits<float>::min()) : 1.0f;
}

/// Of weights that share it: the scale at which the largest of w(R,C) becomes the largest code.
inline float covering_scale(View<const float, 2> w, float largest_code) {
  float largest = 0;
  for (std::int64_t r = 0; r < w.shape[0]; ++r)
    for (std::int64_t c = 0; c < w.shape[1]; ++c) largest = std::max(largest, std::fabs(w(r, c)));
  return usable_scale(largest, largest_code);
}

/// Of `covering` and `others`, in this order, the scale of least squared error, each column's times its importance (C). rounded(weight, scale)
/// is what a weight becomes.
template <class Rounded>
float searched_scale(View<const float, 2> w, const std::vector<float>& importance, float covering, const std::vector<float>& others, Rounded rounded) {
  const auto error_of = [&](float scale) {
    double sum = 0;
    for (std::int64_t r = 0; r < w.shape[0]; ++r)
      for (std::int64_t c = 0; c < w.shape[1]; ++c) {
        const double error = w(r, c) - rounded(w(r, c), scale);
        sum += importance[c] * error * error;
      }
    return sum;
  };
  float best = covering;
  double least = error_of(covering);
  for (const float other : others) {
    const float scale = std::max(other, std::numeric_limits<float>::min());
    const double error = error_of(scale);
    if (error < least) least = error, best = scale;
  }
  return best;
}

/// The scale of all inputs, from the largest that calibration saw; 0: it saw none.
inline float static_scale(const Statistics& statistics, float largest_code) {
  if (statistics.largest.shape[0] == 0) return 0;
  float largest = 0;
  for (std::int64_t c = 0; c < statistics.largest.shape[0]; ++c) largest = std::max(largest, statistics.largest[c]);
  return usable_scale(largest, largest_code);
}

/// Keeps it in `part` of a weight whose tile at first_column is packed; and says so where there is none.
inline void store_static_scale(float scale, std::int64_t first_column, const TensorRef& part, PackedWeight& out) {
  if (first_column != 0) return;  // once, as other threads pack other tiles
  part.as<float, 1>()[0] = scale;
  if (scale == 0) out.say("no calibration token came by: its inputs are rounded token by token");
}

/// A rounding by the scale that is stored with a weight; by token where that is 0.
inline RowRounding with_stored_scale(RowRounding how, float stored) {
  how.given = stored;
  if (stored == 0) how.scale = RowRounding::Scale::token;
  return how;
}

}  // namespace patchbay
