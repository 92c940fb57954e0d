// One primitive each, many times: what the emulator's cost is made of.
#include "simt_kernels.h"

#include "patchbay/gpu/tensor_core.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void straight_kernel(float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i] * 2.0f + 1.0f;
}
__global__ void barriers_kernel(float* x, int rounds) {
  for (int round = 0; round < rounds; ++round) __syncthreads();
  x[threadIdx.x] = 1;
}
__global__ void shuffles_kernel(float* x, int rounds) {
  float value = static_cast<float>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) value += __shfl_xor_sync(~0u, value, 1);
  x[threadIdx.x] = value;
}
__global__ void matrices_kernel(float* x, int rounds) {
  const std::uint32_t ones = 0x3C003C00, a[4] = {ones, ones, ones, ones}, b[2] = {ones, ones};
  float d[4] = {};
  for (int round = 0; round < rounds; ++round) gpu::mma_m16n8k16<__half>(d, a, b);
  x[threadIdx.x] = d[0];
}

}  // namespace

void bench_straight(float* x, int blocks, int threads, gpu::Stream stream) { gpu::launch(blocks, threads, 0, stream, straight_kernel, x); }
void bench_barriers(float* x, int threads, int rounds, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, barriers_kernel, x, rounds); }
void bench_shuffles(float* x, int threads, int rounds, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, shuffles_kernel, x, rounds); }
void bench_matrices(float* x, int rounds, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, matrices_kernel, x, rounds); }

}  // namespace patchbay::PATCHBAY_GPU
