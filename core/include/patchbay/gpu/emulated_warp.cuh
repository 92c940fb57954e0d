/// @file emulated_warp.cuh
/// Barriers, shuffles, votes and reductions of CUDA, for the emulator.
#pragma once
#include <bit>

#include "patchbay/gpu/emulator_runtime.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

/// Every lane gets the value of the lane that it names.
template <class T>
T shuffle(unsigned mask, T value, int source, const char* name, emulator::CallSite site) {
  static_assert(sizeof(T) <= 8, "shuffles move 4 or 8 bytes");
  struct Lane { T value, result; int source; const char* name; } lane{value, value, source, name};
  emulator::warp_collective(mask, {name, emulator::WarpOperation::shuffle}, &lane, [](void** lanes, unsigned active) {
    for (int l = 0; l < 32; ++l) {
      if (!(active >> l & 1)) continue;
      Lane& own = *static_cast<Lane*>(lanes[l]);
      if (!(active >> own.source & 1))
        emulator::fail(std::string(own.name) + ": lane " + std::to_string(l) + " reads lane " + std::to_string(own.source) +
                       ", which does not take part: its value is undefined");
      own.result = static_cast<Lane*>(lanes[own.source])->value;
    }
  }, site);
  return lane.result;
}

/// One bit per lane.
inline unsigned ballot(unsigned mask, bool predicate, const char* name, emulator::CallSite site) {
  struct Lane { bool predicate; unsigned result; } lane{predicate, 0};
  emulator::warp_collective(mask, {name, emulator::WarpOperation::vote}, &lane, [](void** lanes, unsigned active) {
    unsigned bits = 0;
    for (int l = 0; l < 32; ++l)
      if (active >> l & 1) bits |= static_cast<unsigned>(static_cast<Lane*>(lanes[l])->predicate) << l;
    for (int l = 0; l < 32; ++l)
      if (active >> l & 1) static_cast<Lane*>(lanes[l])->result = bits;
  }, site);
  return lane.result;
}

template <class Combine, class T>
T reduce(unsigned mask, T value, const char* name, emulator::CallSite site) {
  struct Lane { T value, result; } lane{value, value};
  emulator::warp_collective(mask, {name, emulator::WarpOperation::reduce}, &lane, [](void** lanes, unsigned active) {
    T all{};
    bool first = true;
    for (int l = 0; l < 32; ++l) {
      if (!(active >> l & 1)) continue;
      const T own = static_cast<Lane*>(lanes[l])->value;
      all = first ? own : Combine{}(all, own);
      first = false;
    }
    for (int l = 0; l < 32; ++l)
      if (active >> l & 1) static_cast<Lane*>(lanes[l])->result = all;
  }, site);
  return lane.result;
}

/// The lanes whose value equals one's own.
template <class T>
unsigned match(unsigned mask, T value, const char* name, emulator::CallSite site) {
  struct Lane { T value; unsigned result; } lane{value, 0};
  emulator::warp_collective(mask, {name, emulator::WarpOperation::match}, &lane, [](void** lanes, unsigned active) {
    for (int l = 0; l < 32; ++l) {
      if (!(active >> l & 1)) continue;
      Lane& own = *static_cast<Lane*>(lanes[l]);
      for (int k = 0; k < 32; ++k)
        if (active >> k & 1 && static_cast<Lane*>(lanes[k])->value == own.value) own.result |= 1u << k;
    }
  }, site);
  return lane.result;
}

struct Sum { template <class T> T operator()(T a, T b) const { return static_cast<T>(a + b); } };
struct Smaller { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
struct Larger { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };
struct And { template <class T> T operator()(T a, T b) const { return a & b; } };
struct Or { template <class T> T operator()(T a, T b) const { return a | b; } };
struct Xor { template <class T> T operator()(T a, T b) const { return a ^ b; } };

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu

PATCHBAY_GPU_INLINE void __syncthreads(PATCHBAY_GPU_SITE) { patchbay::gpu::emulator::barrier(site); }
PATCHBAY_GPU_INLINE int __syncthreads_count(int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::emulator::barrier_sum(predicate != 0, "__syncthreads_count", site);
}
PATCHBAY_GPU_INLINE int __syncthreads_or(int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::emulator::barrier_sum(predicate != 0, "__syncthreads_or", site) != 0;
}
PATCHBAY_GPU_INLINE int __syncthreads_and(int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::emulator::barrier_sum(predicate == 0, "__syncthreads_and", site) == 0;
}
PATCHBAY_GPU_INLINE void __syncwarp(unsigned mask = ~0u, PATCHBAY_GPU_SITE) {
  patchbay::gpu::emulator::warp_collective(mask, {"__syncwarp", patchbay::gpu::emulator::WarpOperation::sync, true}, nullptr, nullptr, site);
}

template <class T> PATCHBAY_GPU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32, PATCHBAY_GPU_SITE) {
  const int first = patchbay::gpu::emulator::lane_id() & ~(width - 1);
  return patchbay::gpu::shuffle(mask, value, first + (source & (width - 1)), "__shfl_sync", site);
}
template <class T> PATCHBAY_GPU_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, PATCHBAY_GPU_SITE) {
  const int lane = patchbay::gpu::emulator::lane_id(), source = lane ^ bits;
  return patchbay::gpu::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, "__shfl_xor_sync", site);
}
template <class T> PATCHBAY_GPU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, PATCHBAY_GPU_SITE) {
  const int lane = patchbay::gpu::emulator::lane_id(), source = lane + static_cast<int>(delta);
  return patchbay::gpu::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, "__shfl_down_sync", site);
}
template <class T> PATCHBAY_GPU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, PATCHBAY_GPU_SITE) {
  const int lane = patchbay::gpu::emulator::lane_id(), source = lane - static_cast<int>(delta);
  return patchbay::gpu::shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane, "__shfl_up_sync", site);
}

PATCHBAY_GPU_INLINE unsigned __ballot_sync(unsigned mask, int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::ballot(mask, predicate != 0, "__ballot_sync", site);
}
PATCHBAY_GPU_INLINE int __any_sync(unsigned mask, int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::ballot(mask, predicate != 0, "__any_sync", site) != 0;
}
PATCHBAY_GPU_INLINE int __all_sync(unsigned mask, int predicate, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::ballot(mask, predicate == 0, "__all_sync", site) == 0;
}
template <class T> PATCHBAY_GPU_INLINE unsigned __match_any_sync(unsigned mask, T value, PATCHBAY_GPU_SITE) {
  return patchbay::gpu::match(mask, value, "__match_any_sync", site);
}
template <class T> PATCHBAY_GPU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all, PATCHBAY_GPU_SITE) {
  const unsigned equal = patchbay::gpu::match(mask, value, "__match_all_sync", site);
  *all = equal == mask;
  return equal == mask ? mask : 0u;
}
/// CUDA promises no lane but the caller's own, and fibres run one at a time.
PATCHBAY_GPU_INLINE unsigned __activemask() { return 1u << patchbay::gpu::emulator::lane_id(); }

#define PATCHBAY_GPU_REDUCTION(name, Combine)                                                                 \
  template <class T> requires std::is_integral_v<T>                                                           \
  PATCHBAY_GPU_INLINE T name(unsigned mask, T value, PATCHBAY_GPU_SITE) {                                     \
    return patchbay::gpu::reduce<patchbay::gpu::Combine>(mask, value, #name, site);                           \
  }
PATCHBAY_GPU_REDUCTION(__reduce_add_sync, Sum)
PATCHBAY_GPU_REDUCTION(__reduce_min_sync, Smaller)
PATCHBAY_GPU_REDUCTION(__reduce_max_sync, Larger)
PATCHBAY_GPU_REDUCTION(__reduce_and_sync, And)
PATCHBAY_GPU_REDUCTION(__reduce_or_sync, Or)
PATCHBAY_GPU_REDUCTION(__reduce_xor_sync, Xor)
#undef PATCHBAY_GPU_REDUCTION
