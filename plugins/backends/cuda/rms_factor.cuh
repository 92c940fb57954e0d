/// @file rms_factor.cuh
/// What RMSNorm multiplies a row by, for the norm alone and fused with others: the same bits in both.
#pragma once
#include "patchbay/gpu.h"

namespace patchbay::PATCHBAY_GPU {

/// 1 / sqrt(mean square + epsilon), of the row's sum of squares.
__device__ inline float factor_of(float squares, int cols, float epsilon) {
  return 1.0f / sqrtf(squares / static_cast<float>(cols) + epsilon);
}

}  // namespace patchbay::PATCHBAY_GPU
