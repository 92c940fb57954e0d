// Four kernels of the usual kinds, on which the emulator itself is tested (kernels_test.cpp, mutate.py).
#pragma once
#include "patchbay/gpu.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, gemm_tiled, (const float* A, const float* B, float* C, int M, int N, int K, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, gemv_int4, (const uint32_t* W, const __half* scales, const __half* x, float* y, int N, int K, int G, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, attn_decode, (const __half* q, const __half* k, const __half* v, const int* table, const int* len, float* out,
                                          int seqs, int kv_heads, int group, int max_pages, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, gemm_f16, (const __half* A, const __half* B, float* C, int M, int N, int K, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, gemm_bf16, (const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K, gpu::Stream stream))

}  // namespace patchbay
