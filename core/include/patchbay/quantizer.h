/// @file quantizer.h
/// Interface of a quantizer: which codes to choose. It never sees how a format packs them.
#pragma once
#include "patchbay/weight_format.h"

namespace patchbay {

/// What a quantizer wants to know about a layer's inputs, gathered by calibration.
enum class Needs { nothing, moments, hessian };

/// Facts about the inputs x of one linear layer, over the calibration tokens. Empty views where not asked for.
struct Statistics {
  std::int64_t tokens = 0;
  View<const float, 1> second_moment;  ///< (C): mean of x^2
  View<const float, 2> hessian;        ///< (C, C): mean of 2 x x^T
};

class PATCHBAY_API Quantizer {
 public:
  virtual ~Quantizer();
  virtual Needs needs() const { return Needs::nothing; }
  /// True for the one that leaves every weight as the file stores it (then quantize is never called).
  virtual bool keeps_stored() const { return false; }
  /// Chooses codes for w(R,C) and packs them into `out` (allocated by format.allocate).
  virtual void quantize(View<const float, 2> w, const Statistics& statistics, const WeightFormat& format, Device& device,
                        PackedWeight& out) const = 0;
};

}  // namespace patchbay
