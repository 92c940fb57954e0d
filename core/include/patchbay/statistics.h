/// @file statistics.h
/// What calibration learns about the inputs of a linear layer, for techniques that choose by it.
/// C columns of the layer's weights, which are the features of its input x.
#pragma once
#include <algorithm>
#include <cstdint>

#include "patchbay/tensor.h"

namespace patchbay {

/// What a technique asks calibration for.
struct Needs {
  bool moments = false;     ///< second_moment and largest
  bool hessian = false;
  std::int64_t inputs = 0;  ///< at most so many rows of x
  /// Of x as the matrices before this one make it once they are quantised, those of its own block too (GPTQ's true_sequential). Else a
  /// block's matrices all see what the block makes as it is stored; the blocks before it are quantised either way.
  bool sequential = false;
  bool any() const { return moments || hessian || inputs > 0; }
  Needs operator|(const Needs& other) const {
    return {moments || other.moments, hessian || other.hessian, std::max(inputs, other.inputs), sequential || other.sequential};
  }
};

/// Facts about the inputs of one layer over the calibration tokens. Views are empty where nobody asked, and all of them where no
/// token came by (an expert that the router never chose): tokens is 0 then.
struct Statistics {
  std::int64_t tokens = 0;
  View<const float, 1> second_moment;  ///< (C): mean of x^2
  View<const float, 1> largest;        ///< (C): maximum of |x|
  View<const float, 2> hessian;        ///< (C,C): mean of 2 x x^T
  View<const float, 2> inputs;         ///< (N,C): rows of x, drawn evenly over the tokens
};

}  // namespace patchbay
