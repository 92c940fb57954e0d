/// @file emulated_atomics.cuh
/// CUDA's atomic functions and fences, for the emulator.
#pragma once
#include <type_traits>

#include "patchbay/gpu/emulator_runtime.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

template <class T, class Change>
PATCHBAY_GPU_INLINE T atomic_change(T* pointer, Change change, emulator::CallSite site) {
  emulator::note_atomic(pointer, sizeof(T), site);
  T old, wanted;
  __atomic_load(pointer, &old, __ATOMIC_RELAXED);
  do wanted = change(old);
  while (!__atomic_compare_exchange(pointer, &old, &wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return old;
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu

#define PATCHBAY_GPU_ATOMIC(name, expression)                                                                  \
  template <class T> PATCHBAY_GPU_INLINE T name(T* pointer, std::type_identity_t<T> value, PATCHBAY_GPU_SITE) { \
    return patchbay::gpu::atomic_change(pointer, [value]([[maybe_unused]] T old) { return static_cast<T>(expression); }, site); \
  }
PATCHBAY_GPU_ATOMIC(atomicAdd, old + value)
PATCHBAY_GPU_ATOMIC(atomicSub, old - value)
PATCHBAY_GPU_ATOMIC(atomicMax, old < value ? value : old)
PATCHBAY_GPU_ATOMIC(atomicMin, value < old ? value : old)
PATCHBAY_GPU_ATOMIC(atomicAnd, old & value)
PATCHBAY_GPU_ATOMIC(atomicOr, old | value)
PATCHBAY_GPU_ATOMIC(atomicXor, old ^ value)
PATCHBAY_GPU_ATOMIC(atomicExch, value)
PATCHBAY_GPU_ATOMIC(atomicInc, old >= value ? T{0} : old + 1)
PATCHBAY_GPU_ATOMIC(atomicDec, old == T{0} || old > value ? value : old - 1)
#undef PATCHBAY_GPU_ATOMIC
template <class T>
PATCHBAY_GPU_INLINE T atomicCAS(T* pointer, std::type_identity_t<T> expected, std::type_identity_t<T> value, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::atomic_change(pointer, [=](T old) { return old == expected ? value : old; }, site);
}
PATCHBAY_GPU_INLINE void __threadfence() {
  patchbay::gpu::emulator::fence();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
PATCHBAY_GPU_INLINE void __threadfence_block() { __threadfence(); }
PATCHBAY_GPU_INLINE void __threadfence_system() { __threadfence(); }
/// A loop that waits for another thread must call this: nothing else lets the other run.
PATCHBAY_GPU_INLINE void __nanosleep(unsigned) { patchbay::gpu::emulator::yield(); }
