#include "gpu/kernels/patterns.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void strided_copy_kernel(const float* x, float* y, int n, int stride, int offset) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i * stride + offset];
}
__global__ void float4_copy_kernel(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void sum_rows_kernel(const float* x, float* y, int rows) {
  float sum = 0.0f;
  for (int row = 0; row < rows; ++row) sum += x[row * 32 + threadIdx.x];
  y[threadIdx.x] = sum;
}
__global__ void banks_kernel(float* y, int stride) {
  PATCHBAY_SHARED(float, words, [32 * 32]);
  words[threadIdx.x * stride] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = words[threadIdx.x * stride];
}
template <class Vector> __global__ void wide_banks_kernel(Vector* y) {
  PATCHBAY_SHARED(Vector, words, [32]);
  words[threadIdx.x] = Vector{};
  __syncthreads();
  y[threadIdx.x] = words[threadIdx.x];
}
template <int kColumns> __global__ void transpose_kernel(const float* x, float* y) {
  PATCHBAY_SHARED(float, tile, [32][kColumns]);
  for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
  __syncthreads();
  for (int row = 0; row < 32; ++row) y[row * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
__global__ void shared_atomics_kernel(int* y, int different) {
  PATCHBAY_SHARED(int, counts, [32]);
  counts[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&counts[threadIdx.x % different], 1);
  __syncthreads();
  y[threadIdx.x] = counts[threadIdx.x];
}
__global__ void two_ways_kernel(float* y, int first) {
  if (threadIdx.x % 32 < first) y[threadIdx.x] = 1.0f;
  else y[threadIdx.x + blockDim.x] = 2.0f;
}
__global__ void loop_kernel(float* y, int trips, int more) {
  const int count = trips + threadIdx.x * more;
  for (int i = 0; i < count; ++i) y[i * 32 + threadIdx.x] = 1.0f;
}

}  // namespace

void strided_copy(const float* x, float* y, int n, int stride, int offset, gpu::Stream stream) {
  gpu::launch(gpu::ceil_div(n, 64), 64, 0, stream, strided_copy_kernel, x, y, n, stride, offset);
}
void float4_copy(const float* x, float* y, int n, gpu::Stream stream) {
  gpu::launch(1, n / 4, 0, stream, float4_copy_kernel, reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y));
}
void sum_rows(const float* x, float* y, int rows, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, sum_rows_kernel, x, y, rows); }
void banks(float* y, int stride, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, banks_kernel, y, stride); }
void wide_banks(float* y, int bytes, gpu::Stream stream) {
  if (bytes == 4) gpu::launch(1, 32, 0, stream, wide_banks_kernel<float>, y);
  if (bytes == 8) gpu::launch(1, 32, 0, stream, wide_banks_kernel<float2>, reinterpret_cast<float2*>(y));
  if (bytes == 16) gpu::launch(1, 32, 0, stream, wide_banks_kernel<float4>, reinterpret_cast<float4*>(y));
}
void transpose(const float* x, float* y, bool padded, gpu::Stream stream) {
  gpu::launch(1, 32, 0, stream, padded ? transpose_kernel<33> : transpose_kernel<32>, x, y);
}
void shared_atomics(int* y, int different, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, shared_atomics_kernel, y, different); }
void two_ways(float* y, int threads, int first, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, two_ways_kernel, y, first); }
void loop(float* y, int trips, int more, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, loop_kernel, y, trips, more); }

}  // namespace patchbay::PATCHBAY_GPU
