/// @file quantizer.h
/// Interface of a quantizer: which codes to choose. It never sees how a format packs them.
#pragma once
#include "patchbay/weight_format.h"

namespace patchbay {

class PATCHBAY_API Quantizer {
 public:
  virtual ~Quantizer();
  virtual Needs needs() const { return {}; }
  /// True for the one that leaves every weight as the file stores it (then quantize is never called).
  virtual bool keeps_stored() const { return false; }
  /// Chooses codes for w(R,C) and packs them into `out` (allocated by format.allocate).
  virtual void quantize(View<const float, 2> w, const Statistics& statistics, const WeightFormat& format, Device& device,
                        PackedWeight& out) const = 0;
};

/// Rounds every weight to the nearest number of its tile's grid. Tiles share nothing, so each is done on any thread. options.importance: of
/// all C columns, or empty. (rtn writes the same walk out: a new quantizer begins as its copy.)
PATCHBAY_API void round_to_nearest(View<const float, 2> w, const FitOptions& options, const WeightFormat& format, Device& device, PackedWeight& out);

}  // namespace patchbay
