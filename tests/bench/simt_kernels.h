#pragma once
#include "patchbay/gpu.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, bench_straight, (float* x, int blocks, int threads, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, bench_barriers, (float* x, int threads, int rounds, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, bench_shuffles, (float* x, int threads, int rounds, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, bench_matrices, (float* x, int rounds, gpu::Stream stream))

}  // namespace patchbay
