// Asynchronous copies and matrix operations.
#include "gpu/broken/broken.h"
#include "patchbay/gpu/async_copy.cuh"
#include "patchbay/gpu/tensor_core.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void missing_async_wait_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  if (threadIdx.x < 16) gpu::cp_async16(&tile[4 * threadIdx.x], &out[4 * threadIdx.x]);
  gpu::cp_async_commit();
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

// Of the two groups the first is waited for, and both are read.
__global__ void wait_for_too_few_groups_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [128]);
  for (int half = 0; half < 2; ++half) {
    if (threadIdx.x < 16) gpu::cp_async16(&tile[64 * half + 4 * threadIdx.x], &out[4 * threadIdx.x]);
    gpu::cp_async_commit();
  }
  gpu::cp_async_wait<1>();
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x] + tile[64 + threadIdx.x];
}

// Each thread has waited for its own copies, nobody for the others'.
__global__ void missing_barrier_after_wait_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  if (threadIdx.x < 16) gpu::cp_async16(&tile[4 * threadIdx.x], &out[4 * threadIdx.x]);
  gpu::cp_async_commit();
  gpu::cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void misaligned_async_copy_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  if (threadIdx.x < 15) gpu::cp_async16(&tile[4 * threadIdx.x + 1], &out[4 * threadIdx.x]);
}

// Rows of 20 bytes: no two of them are aligned to 16.
__global__ void misaligned_ldmatrix_kernel(float* out) {
  PATCHBAY_SHARED(__half, tile, [8][10]);
  for (int i = threadIdx.x; i < 80; i += 32) tile[i / 10][i % 10] = __float2half(1);
  __syncwarp();
  std::uint32_t matrix[1];
  gpu::ldmatrix_x1(matrix, &tile[threadIdx.x % 8][0]);
  out[threadIdx.x] = static_cast<float>(matrix[0]);
}

__global__ void partial_warp_mma_kernel(float* out) {
  float d[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x >= 24) return;
  gpu::mma_m16n8k16<__half>(d, a, b);
  out[threadIdx.x] = d[0];
}

}  // namespace

void missing_async_wait(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, missing_async_wait_kernel, out); }
void wait_for_too_few_groups(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, wait_for_too_few_groups_kernel, out); }
void missing_barrier_after_wait(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, missing_barrier_after_wait_kernel, out); }
void misaligned_async_copy(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, misaligned_async_copy_kernel, out); }
void misaligned_ldmatrix(float* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, misaligned_ldmatrix_kernel, out); }
void partial_warp_mma(float* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, partial_warp_mma_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
