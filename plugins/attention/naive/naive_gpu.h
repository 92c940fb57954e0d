/// @file naive_gpu.h
/// The launcher of naive.cu.
#pragma once
#include "patchbay/attention.h"
#include "patchbay/gpu.h"

namespace patchbay {

/// Attention::run_on_gpu. Any head size, any layout; sequences of up to 16384 tokens.
PATCHBAY_GPU_LAUNCHER(void, naive_attention,
                      (const AttentionSpec&, const GpuStep&, int layer, TensorRef q, TensorRef out, gpu::Stream))

}  // namespace patchbay
