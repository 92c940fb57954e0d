/// @file not_finite.h
/// Where a forward pass first leaves the numbers: for the error that says why its logits are none.
#pragma once
#include <string>

#include "patchbay/model_runner.h"

namespace patchbay {

/// Whether what a step gave to the host are numbers (and tokens were chosen where that was asked).
bool is_finite(const Step& step);

/// A probe that remembers the first tensor with infinities or NaN, and the largest number before it.
class NotFiniteFinder final : public Probe {
 public:
  void saw(std::string_view name, int layer, TensorRef tensor) override;
  /// activations: the type that the device computes in. Call it after a forward pass that was probed.
  Error error(DType activations) const;

 private:
  std::string where_;
  std::int64_t values_ = 0, bad_ = 0;  ///< of the tensor found
  float largest_ = 0;
};

}  // namespace patchbay
