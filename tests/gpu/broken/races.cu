// Two threads touch one place, one of them writes, and nothing orders them.
#include "gpu/broken/broken.h"
#include "gpu/broken/helper.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

// The neighbour's value is read before it is sure to be there.
__global__ void missing_barrier_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// The second round overwrites what others may still read.
__global__ void missing_second_barrier_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = static_cast<float>(round);
    __syncthreads();
    sum += tile[63 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

// A warp is no longer in lock step since Volta.
__global__ void missing_syncwarp_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  tile[threadIdx.x] = 1;
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// Read, add, write: of two threads that do this at once one is lost.
__global__ void lost_update_kernel(float* out) { out[0] = threadIdx.x == 0 ? 0.0f : out[0] + 1; }

// The sum is read while others still add to it.
__global__ void plain_read_beside_atomic_kernel(float* out) {
  if (threadIdx.x == 0) out[0] = 0;
  __syncthreads();
  atomicAdd(&out[0], 1.0f);
  out[1 + threadIdx.x % 2] = threadIdx.x < 2 ? out[0] : 0;
}

__global__ void blocks_write_one_value_kernel(float* out) {
  if (threadIdx.x == 0) out[0] = static_cast<float>(blockIdx.x);
}

// The last block to finish adds up what all wrote. Without __threadfence() before the ticket the others' values need not be there.
__global__ void missing_threadfence_kernel(float* out) {
  PATCHBAY_SHARED(unsigned, ticket, [1]);
  if (threadIdx.x == 0) {
    out[1 + blockIdx.x] = 1;
    ticket[0] = atomicAdd(reinterpret_cast<unsigned*>(out), 1u);
  }
  __syncthreads();
  if (threadIdx.x == 0 && ticket[0] == ~0u + gridDim.x - 1) out[10] = out[1] + out[2];  // memory starts as ~0
}

__device__ int counter;

// A variable in device memory is memory like any other.
__global__ void device_variable_counts_kernel(float* out) {
  counter += 1;
  if (threadIdx.x == 0) out[0] = static_cast<float>(counter);
}

// The report names the line of the kernel too, not the helper's alone.
__global__ void helper_writes_one_value_kernel(float* out) {
  if (threadIdx.x == 0) store_first(out, static_cast<float>(blockIdx.x));
}

}  // namespace

void missing_barrier(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, missing_barrier_kernel, out); }
void missing_second_barrier(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, missing_second_barrier_kernel, out); }
void missing_syncwarp(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, missing_syncwarp_kernel, out); }
void lost_update(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, lost_update_kernel, out); }
void plain_read_beside_atomic(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, plain_read_beside_atomic_kernel, out); }
void blocks_write_one_value(float* out, gpu::Stream stream) { gpu::launch(2, 64, 0, stream, blocks_write_one_value_kernel, out); }
void missing_threadfence(float* out, gpu::Stream stream) { gpu::launch(2, 64, 0, stream, missing_threadfence_kernel, out); }
void device_variable_counts(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, device_variable_counts_kernel, out); }
void helper_writes_one_value(float* out, gpu::Stream stream) { gpu::launch(2, 64, 0, stream, helper_writes_one_value_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
