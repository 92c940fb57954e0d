// What several kernels share: its lines are nobody's fault.
#pragma once
#include "patchbay/gpu.h"

namespace patchbay::PATCHBAY_GPU {

__device__ inline void store_first(float* to, float value) { to[0] = value; }
/// The same, never inlined: its caller is known from the stack alone.
__attribute__((noinline)) __device__ inline void store_far(float* to, float value) { to[64] = value; }

}  // namespace patchbay::PATCHBAY_GPU
