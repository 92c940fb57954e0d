/// @file host.h
/// What host code needs of a device: streams, events, graphs, memory, and the declaration of launchers. The same names in every world:
/// in a file built by nvcc they are the GPU's, elsewhere the emulator's.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "patchbay/error.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#else
#include "patchbay/gpu/fp8_types.h"
#include "patchbay/gpu/half_pairs.h"
#include "patchbay/gpu/vector_types.h"
#endif

#define PATCHBAY_GPU_JOIN_(a, b) a##b
#define PATCHBAY_GPU_JOIN(a, b) PATCHBAY_GPU_JOIN_(a, b)
/// Code in headers that is compiled for several worlds stands in an inline namespace of its world, so that no linker mixes them.
#if defined(PATCHBAY_GPU)
#define PATCHBAY_GPU_WORLD PATCHBAY_GPU_JOIN(in_, PATCHBAY_GPU)
#else
#define PATCHBAY_GPU_WORLD in_host
#endif

namespace patchbay::gpu {

enum class World { cuda, simt, simt_checked };

/// An order of work on a device. The default is the device's default stream. A handle: copying it makes no second stream.
struct Stream { void* handle = nullptr; };
/// A point in a stream's work.
struct Event { void* handle = nullptr; };
/// Recorded work that can be run again.
struct Graph { void* handle = nullptr; };

/// Bytes of device memory.
struct MemoryRoom { std::size_t free = 0, total = 0; };

enum class CopyKind { host_to_device, device_to_host, device_to_device };

/// Extents of a grid (in blocks) or a block (in threads): gpu::launch({columns, rows}, 256, ...).
struct Dim {
  unsigned x = 1, y = 1, z = 1;
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  constexpr Dim(X x_, Y y_ = 1, Z z_ = 1) : x(narrow(x_)), y(narrow(y_)), z(narrow(z_)) {}  // NOLINT: implicit on purpose
  constexpr Dim(dim3 v) : x(v.x), y(v.y), z(v.z) {}                                        // NOLINT

 private:
  /// What does not fit becomes 0, which no launch accepts.
  template <std::integral I> static constexpr unsigned narrow(I value) {
    return std::in_range<unsigned>(value) ? static_cast<unsigned>(value) : 0u;
  }
};

template <std::integral I, std::integral J> constexpr auto ceil_div(I n, J piece) { return (n + piece - 1) / piece; }

/// Declares a launcher in every world of this build and gives `name.in(world)`: a reference to the function of that world.
/// Write it in namespace patchbay, in a header beside the .cu.
#if defined(PATCHBAY_CUDA)
#define PATCHBAY_GPU_CUDA_DECLARATION_(result, name, parameters) namespace cuda { result name parameters; }
#define PATCHBAY_GPU_CUDA_ADDRESS_(name) &cuda::name
#else
#define PATCHBAY_GPU_CUDA_DECLARATION_(result, name, parameters)
#define PATCHBAY_GPU_CUDA_ADDRESS_(name) nullptr
#endif
#define PATCHBAY_GPU_LAUNCHER(result, name, parameters)                    \
  PATCHBAY_GPU_CUDA_DECLARATION_(result, name, parameters)                 \
  namespace simt { result name parameters; }                               \
  namespace simt_checked { result name parameters; }                       \
  namespace gpu_launchers {                                                \
  inline constexpr ::patchbay::gpu::Launcher<result parameters> name{      \
      #name, PATCHBAY_GPU_CUDA_ADDRESS_(name), &::patchbay::simt::name, &::patchbay::simt_checked::name}; \
  }
/// The function of one world: `gpu::pick(gpu_launchers::int4_gemv, world)(args, stream)`.
template <class Signature> struct Launcher;
template <class R, class... A>
struct Launcher<R(A...)> {
  const char* name;
  R (*cuda)(A...);
  R (*simt)(A...);
  R (*simt_checked)(A...);
};
[[noreturn]] PATCHBAY_API void fail_without_cuda(const char* launcher);
template <class R, class... A>
R (*pick(const Launcher<R(A...)>& launcher, World world))(A...) {
  if (world == World::cuda && !launcher.cuda) fail_without_cuda(launcher.name);
  return world == World::cuda ? launcher.cuda : world == World::simt ? launcher.simt : launcher.simt_checked;
}

}  // namespace patchbay::gpu

#if defined(__CUDACC__)
#include "patchbay/gpu/cuda_host.cuh"
#else
#include "patchbay/gpu/emulated_host.h"
#endif
