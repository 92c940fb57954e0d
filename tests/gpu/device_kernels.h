// Kernels for device_test.cpp.
#pragma once
#include <cstddef>

#include "patchbay/gpu.h"

namespace patchbay {

/// out(n) = value
PATCHBAY_GPU_LAUNCHER(void, fill, (float* out, int n, float value, gpu::Stream stream))
/// The same, and one value too many.
PATCHBAY_GPU_LAUNCHER(void, fill_too_far, (float* out, int n, float value, gpu::Stream stream))
/// A block with `bytes` of dynamic shared memory.
PATCHBAY_GPU_LAUNCHER(void, take_shared, (float* out, std::size_t bytes, gpu::Stream stream))

}  // namespace patchbay
