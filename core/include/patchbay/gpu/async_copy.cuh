/// @file async_copy.cuh
/// Copies from global to shared memory that run beside the computation (cp.async, sm_80). Each thread commits its copies in groups and waits
/// until at most N of its latest groups are unfinished; __syncthreads() then makes them visible to the block.
#pragma once
#include "patchbay/gpu.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

#if defined(__CUDACC__)
__device__ inline unsigned shared_address(const void* pointer) { return static_cast<unsigned>(__cvta_generic_to_shared(pointer)); }

/// 16 bytes, past the L1 cache. Both pointers aligned to 16.
__device__ inline void cp_async16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
/// The first `valid` bytes (0 to 16); the others become zero. With 0 nothing is read: `from` may point anywhere.
__device__ inline void cp_async16(void* to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
}
__device__ inline void cp_async8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void cp_async4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
PATCHBAY_GPU_INLINE void cp_async16(void* to, const void* from, PATCHBAY_GPU_SITE) { emulator::async_copy(to, from, 16, 16, site); }
PATCHBAY_GPU_INLINE void cp_async16(void* to, const void* from, int valid, PATCHBAY_GPU_SITE) {
  emulator::async_copy(to, from, 16, valid, site);
}
PATCHBAY_GPU_INLINE void cp_async8(void* to, const void* from, PATCHBAY_GPU_SITE) { emulator::async_copy(to, from, 8, 8, site); }
PATCHBAY_GPU_INLINE void cp_async4(void* to, const void* from, PATCHBAY_GPU_SITE) { emulator::async_copy(to, from, 4, 4, site); }
PATCHBAY_GPU_INLINE void cp_async_commit() { emulator::async_commit(); }
template <int N> PATCHBAY_GPU_INLINE void cp_async_wait() { emulator::async_wait(N); }
#endif

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
