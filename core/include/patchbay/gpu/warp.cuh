/// @file warp.cuh
/// Sums and maxima over a warp and over a block. The order of float operations is fixed, so results do not depend on timing.
#pragma once
#include "patchbay/gpu.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

/// The index of the calling thread in its block.
__device__ inline int thread_rank() { return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x); }

/// The sum over the 32 lanes, in every lane. All lanes must call it.
template <class T> __device__ inline T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}
template <class T> __device__ inline T warp_max(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(~0u, value, distance);
    value = value < other ? other : value;
  }
  return value;
}
template <class T> __device__ inline T warp_min(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(~0u, value, distance);
    value = other < value ? other : value;
  }
  return value;
}
/// The sum over this lane and all before it. All lanes must call it.
template <class T> __device__ inline T warp_prefix_sum(T value) {
  const int lane = thread_rank() % 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T before = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

/// A barrier of `threads` threads of the block (a multiple of 32): whole warps that meet while others go on. Barriers are numbered 1 to 15.
#if defined(__CUDACC__)
__device__ inline void named_barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
#else
PATCHBAY_GPU_INLINE void named_barrier(int id, int threads, PATCHBAY_GPU_SITE) { emulator::named_barrier(id, threads, site); }
#endif

/// The number of warps of the block.
__device__ inline int warps_in_block() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z + 31) / 32; }

/// The sum over a block whose size is a multiple of 32, in every thread. All threads must call it; `scratch` is shared memory for 32 values and
/// is free again when the call returns.
template <class T> __device__ inline T block_sum(T value, T* scratch) {
  const int rank = thread_rank(), lane = rank % 32, warp = rank / 32;
  value = warp_sum(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_sum(lane < warps_in_block() ? scratch[lane] : T(0));
  __syncthreads();
  return value;
}
template <class T> __device__ inline T block_max(T value, T* scratch) {
  const int rank = thread_rank(), lane = rank % 32, warp = rank / 32;
  value = warp_max(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  value = warp_max(scratch[lane < warps_in_block() ? lane : 0]);
  __syncthreads();
  return value;
}
/// The same with shared memory of its own.
template <class T> __device__ inline T block_sum(T value) {
  PATCHBAY_SHARED(T, scratch, [32]);
  return block_sum(value, scratch);
}
template <class T> __device__ inline T block_max(T value) {
  PATCHBAY_SHARED(T, scratch, [32]);
  return block_max(value, scratch);
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
