#include "gpu/primitives/primitives.h"
#include "patchbay/gpu/warp.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void shuffles_kernel(int* out) {
  const int i = threadIdx.x, n = blockDim.x, value = 100 + i;
  // The last warp may lack lanes: only those that exist take part, and a lane beyond them is not asked for.
  const int lanes = min(32, n - i / 32 * 32);
  const unsigned mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
  out[0 * n + i] = __shfl_sync(mask, value, (i * 7) % lanes);
  out[1 * n + i] = __shfl_up_sync(mask, value, 3);
  out[2 * n + i] = i % 32 + 5 < lanes ? __shfl_down_sync(mask, value, 5) : (__shfl_down_sync(mask, value, 0), -1);
  out[3 * n + i] = lanes == 32 ? __shfl_xor_sync(mask, value, 9) : -1;
  out[4 * n + i] = lanes == 32 ? __shfl_sync(mask, value, 2, 8) : -1;
  out[5 * n + i] = lanes == 32 ? __shfl_down_sync(mask, value, 3, 8) : -1;
  out[6 * n + i] = lanes == 32 ? __shfl_xor_sync(mask, value, 6, 4) : -1;
}

__global__ void votes_kernel(unsigned* out) {
  const int i = threadIdx.x, n = blockDim.x, lanes = min(32, n - i / 32 * 32);
  const unsigned mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
  out[0 * n + i] = __ballot_sync(mask, i % 3 == 0);
  out[1 * n + i] = __any_sync(mask, i == 40);
  out[2 * n + i] = __all_sync(mask, i < 40);
  out[3 * n + i] = __match_any_sync(mask, i % 5);
  int all = 0;
  out[4 * n + i] = __match_all_sync(mask, i / 32, &all) + static_cast<unsigned>(all);
  out[5 * n + i] = __activemask() >> (i % 32) & 1;
  out[6 * n + i] = __ballot_sync(i % 2 ? 0xAAAAAAAAu & mask : 0x55555555u & mask, 1);  // two halves of a warp, apart
}

__global__ void reductions_kernel(int* out) {
  const int i = threadIdx.x, value = (i * 37 + 11) % 32 - 16;  // each once: none may be missed by one
  const int results[] = {__reduce_add_sync(~0u, value), __reduce_min_sync(~0u, value), __reduce_max_sync(~0u, value),
                         static_cast<int>(__reduce_and_sync(~0u, static_cast<unsigned>(value))),
                         static_cast<int>(__reduce_or_sync(~0u, static_cast<unsigned>(value))),
                         static_cast<int>(__reduce_xor_sync(~0u, static_cast<unsigned>(value))),
                         gpu::warp_sum(value), gpu::warp_max(value), gpu::warp_min(value), gpu::warp_prefix_sum(value)};
  for (int k = 0; k < 10; ++k) out[k * 32 + i] = results[k];
}

__global__ void block_reductions_kernel(float* out) {
  const int i = gpu::thread_rank();
  const float value = static_cast<float>((i * 29) % 101);
  PATCHBAY_SHARED(float, scratch, [32]);  // one for all: it must be free when a call returns
  const float sum = gpu::block_sum(value, scratch), largest = gpu::block_max(value, scratch), again = gpu::block_sum(value, scratch);
  out[i] = sum == again && sum == gpu::block_sum(value) && largest == gpu::block_max(value) ? sum + 1000000 * largest : -1;
}

__global__ void barriers_kernel(int* out) {
  const int i = threadIdx.x, n = blockDim.x;
  out[0 * n + i] = __syncthreads_count(i % 3 == 0);
  out[1 * n + i] = __syncthreads_or(i == n - 1);
  out[2 * n + i] = __syncthreads_and(i < n - 1);
  PATCHBAY_SHARED(int, tile, [1024]);
  tile[i] = i;
  if (i < 32) {  // the first two warps meet without the others
    gpu::named_barrier(1, 64);
  } else if (i < 64) {
    gpu::named_barrier(1, 64);
  }
  out[3 * n + i] = i < 64 ? tile[63 - i] : -1;
  if (i >= 64) return;  // who has ended is not waited for
  __syncthreads();
  out[4 * n + i] = 1;
}

__global__ void indices_kernel(int* out) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int threads = blockDim.x * blockDim.y * blockDim.z, rank = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * threads + rank] = static_cast<int>(((blockIdx.z * 10 + blockIdx.y) * 10 + blockIdx.x) * 1000 + (threadIdx.z * 10 + threadIdx.y) * 10 + threadIdx.x);
}

}  // namespace

void shuffles(int* out, int threads, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, shuffles_kernel, out); }
void votes(unsigned* out, int threads, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, votes_kernel, out); }
void reductions(int* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, reductions_kernel, out); }
void block_reductions(float* out, int threads, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, block_reductions_kernel, out); }
void barriers(int* out, int threads, gpu::Stream stream) { gpu::launch(1, threads, 0, stream, barriers_kernel, out); }
void indices(int* out, gpu::Dim grid, gpu::Dim block, gpu::Stream stream) { gpu::launch(grid, block, 0, stream, indices_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
