// Kernels that do one thing each, for primitives_test.cpp.
#pragma once
#include "patchbay/gpu.h"

namespace patchbay {

// warp_operations.cu: out[kind][thread]
PATCHBAY_GPU_LAUNCHER(void, shuffles, (int* out, int threads, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, votes, (unsigned* out, int threads, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, reductions, (int* out, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, block_reductions, (float* out, int threads, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, barriers, (int* out, int threads, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, indices, (int* out, gpu::Dim grid, gpu::Dim block, gpu::Stream stream))
// memory_operations.cu
PATCHBAY_GPU_LAUNCHER(void, atomics, (unsigned* out, float* floats, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, async_copies, (const float* in, float* out, int valid_bytes, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, vectors, (const __half* in, __half* out, int count, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, last_block_sums, (const float* in, float* parts, unsigned* ticket, float* out, int blocks, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, blocks_in_turn, (unsigned* turn, float* out, int blocks, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, add_one, (float* x, int count, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, table_lookup, (const int* in, int* out, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, in_clusters, (float* x, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, with_shape, (float* x, gpu::Dim grid, gpu::Dim block, std::size_t shared_bytes, gpu::Stream stream))
// byte_accesses.cu: what three threads do to 16 bytes of shared or global memory
struct ByteAccess { int thread, offset, bytes; bool write, after_barrier; };
PATCHBAY_GPU_LAUNCHER(void, byte_accesses, (const ByteAccess* accesses, int count, char* bytes, bool shared, unsigned* out, gpu::Stream stream))
// matrix_operations.cu: in holds matrices of 2-byte elements; out what each lane got
PATCHBAY_GPU_LAUNCHER(void, matrix_loads, (const std::uint16_t* in, std::uint32_t* out, int matrices, bool transposed, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, product_f16, (const __half* a, const __half* b, float* d, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, product_bf16, (const __nv_bfloat16* a, const __nv_bfloat16* b, float* d, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, product_s8, (const signed char* a, const signed char* b, int* d, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, product_e4m3, (const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, float* d, gpu::Stream stream))
PATCHBAY_GPU_LAUNCHER(void, product_e5m2, (const __nv_fp8_e5m2* a, const __nv_fp8_e5m2* b, float* d, gpu::Stream stream))

}  // namespace patchbay
