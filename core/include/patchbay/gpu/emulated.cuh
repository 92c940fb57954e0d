/// @file emulated.cuh
/// What CUDA's own words mean when g++ compiles a kernel. Every CUDA thread is a fibre (core/src/gpu/scheduler.cpp).
#pragma once
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "patchbay/gpu/emulator_runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// In host C++ a plain __shared__ would silently be a variable of each thread.
#define __shared__ _Pragma("GCC error \"write PATCHBAY_SHARED(type, name, [extent]) or PATCHBAY_DYNAMIC_SHARED(type, name) instead of __shared__\"")
#define __cluster_dims__(...) _Pragma("GCC error \"clusters are not emulated: guard the kernel with #if defined(__CUDACC__)\"")

extern PATCHBAY_API constinit thread_local uint3 threadIdx, blockIdx;  // set whenever another fibre runs
extern PATCHBAY_API constinit thread_local dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#define PATCHBAY_SHARED(T, name, ...)                                        \
  typedef T name##_shared_type_ __VA_ARGS__;                                 \
  static_assert(alignof(T) <= 16, "shared memory is aligned to 16 bytes");   \
  static constexpr char name##_key_ = 0;                                     \
  name##_shared_type_& name = *static_cast<name##_shared_type_*>(            \
      ::patchbay::gpu::emulator::static_shared(&name##_key_, sizeof(name##_shared_type_), #name))
#define PATCHBAY_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::patchbay::gpu::emulator::dynamic_shared())

#define PATCHBAY_GPU_SITE ::patchbay::gpu::emulator::CallSite site = ::patchbay::gpu::emulator::CallSite::here()

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

#define PATCHBAY_GPU_TEXT_(x) #x
#define PATCHBAY_GPU_TEXT(x) PATCHBAY_GPU_TEXT_(x)
/// True in the instrumented build.
inline constexpr bool kCheckedWorld = std::char_traits<char>::length(PATCHBAY_GPU_TEXT(PATCHBAY_GPU)) == 12;  // "simt_checked"

/// Runs `kernel` on grid x block threads with `shared_bytes` of dynamic shared memory, in the order of `stream`.
template <class... P, class... A>
void launch(Dim grid, Dim block, std::size_t shared_bytes, Stream stream, void (*kernel)(P...), A&&... arguments) {
  struct Bound {
    void (*kernel)(P...);
    std::tuple<std::remove_cv_t<P>...> values;
  };
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its arguments by value");
  auto bound = std::make_shared<const Bound>(Bound{kernel, std::tuple<std::remove_cv_t<P>...>(std::forward<A>(arguments)...)});
  emulator::launch(grid, block, shared_bytes, stream,
                   {reinterpret_cast<const void*>(kernel), bound, sizeof(Bound),
                    [](const void* of) {
                      const Bound& call = *static_cast<const Bound*>(of);
                      std::apply(call.kernel, call.values);
                    },
                    kCheckedWorld});
}
/// Clusters (sm_90) are not emulated. @throws Error
template <class... P, class... A>
void launch_cluster(Dim, Dim, Dim cluster, std::size_t, Stream, void (*kernel)(P...), A&&...) {
  emulator::refuse_clusters(reinterpret_cast<const void*>(kernel), cluster);
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu

#include "patchbay/gpu/emulated_warp.cuh"
#include "patchbay/gpu/emulated_atomics.cuh"
#include "patchbay/gpu/emulated_math.cuh"
