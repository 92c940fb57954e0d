// Barriers that not everybody reaches.
#include "gpu/broken/broken.h"
#include "patchbay/gpu/warp.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void divergent_barrier_kernel(float* out) {
  if (threadIdx.x < 48) {
    __syncthreads();
  } else {
    out[0] = 1;
    __syncthreads();
  }
}

// Half of each warp waits for a shuffle of all 32 lanes, the other half for the block.
__global__ void barrier_and_shuffle_kernel(float* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
  else __syncthreads();
}

// Two warps are expected, and one comes.
__global__ void named_barrier_too_few_kernel(float* out) {
  if (threadIdx.x < 32) gpu::named_barrier(1, 64);
  else __syncthreads();
  out[threadIdx.x] = 1;
}

// Nothing says that blocks run at the same time.
__global__ void block_waits_for_later_block_kernel(float* out) {
  unsigned* flag = reinterpret_cast<unsigned*>(out);  // memory starts as ~0
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 1) atomicExch(flag, 1u);
  else while (atomicAdd(flag, 0u) != 1u) __nanosleep(100);
}

}  // namespace

void divergent_barrier(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, divergent_barrier_kernel, out); }
void barrier_and_shuffle(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, barrier_and_shuffle_kernel, out); }
void named_barrier_too_few(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, named_barrier_too_few_kernel, out); }
void block_waits_for_later_block(float* out, gpu::Stream stream) { gpu::launch(2, 32, 0, stream, block_waits_for_later_block_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
