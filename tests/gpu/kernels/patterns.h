// Small kernels whose counts are known by hand (profiler_test.cpp).
#pragma once
#include "patchbay/gpu.h"

namespace patchbay {

/// y[i] = x[i * stride + offset]
PATCHBAY_GPU_LAUNCHER(void, strided_copy, (const float* x, float* y, int n, int stride, int offset, gpu::Stream stream))
/// y[i] = x[i] of four floats at a time
PATCHBAY_GPU_LAUNCHER(void, float4_copy, (const float* x, float* y, int n, gpu::Stream stream))
/// y[i] = the sum of x[i], x[i + 32] ... of `rows` rows
PATCHBAY_GPU_LAUNCHER(void, sum_rows, (const float* x, float* y, int rows, gpu::Stream stream))
/// One warp stores 4-byte words `stride` words apart in shared memory and reads them back.
PATCHBAY_GPU_LAUNCHER(void, banks, (float* y, int stride, gpu::Stream stream))
/// One warp reads neighbouring vectors of `bytes` bytes (4, 8, 16) from shared memory.
PATCHBAY_GPU_LAUNCHER(void, wide_banks, (float* y, int bytes, gpu::Stream stream))
/// y = x^T for 32 x 32 floats by a tile of shared memory with 32 (padded: 33) columns
PATCHBAY_GPU_LAUNCHER(void, transpose, (const float* x, float* y, bool padded, gpu::Stream stream))
/// counts[lane % different] += 1 in shared memory
PATCHBAY_GPU_LAUNCHER(void, shared_atomics, (int* y, int different, gpu::Stream stream))
/// Lanes below `first` (of each warp) take one side of a branch, the others the other.
PATCHBAY_GPU_LAUNCHER(void, two_ways, (float* y, int threads, int first, gpu::Stream stream))
/// Lane l goes around a loop `trips + l * more` times.
PATCHBAY_GPU_LAUNCHER(void, loop, (float* y, int trips, int more, gpu::Stream stream))

}  // namespace patchbay
