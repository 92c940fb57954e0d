/// @file cuda.cuh
/// The few names of gpu.h that CUDA itself does not have, for builds by nvcc.
#pragma once
#include "patchbay/gpu/host.h"

#define PATCHBAY_SHARED(T, name, ...) __shared__ __align__(16) T name __VA_ARGS__
#define PATCHBAY_DYNAMIC_SHARED(T, name)                                                  \
  extern __shared__ __align__(16) unsigned char patchbay_dynamic_shared_[];               \
  T* const name = reinterpret_cast<T*>(patchbay_dynamic_shared_)

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

inline dim3 native(Dim extents) { return dim3(extents.x, extents.y, extents.z); }

/// Runs `kernel` on grid x block threads with `shared_bytes` of dynamic shared memory, in the order of `stream`.
template <class... P, class... A>
void launch(Dim grid, Dim block, std::size_t shared_bytes, Stream stream, void (*kernel)(P...), A&&... arguments) {
  if (shared_bytes > 48 * 1024)
    PATCHBAY_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  kernel<<<native(grid), native(block), shared_bytes, native(stream)>>>(static_cast<P>(std::forward<A>(arguments))...);
  PATCHBAY_CUDA_CHECK(cudaGetLastError());
}

/// The same in clusters of `cluster` blocks (sm_90). The emulator refuses it.
template <class... P, class... A>
void launch_cluster(Dim grid, Dim block, Dim cluster, std::size_t shared_bytes, Stream stream, void (*kernel)(P...), A&&... arguments) {
  if (shared_bytes > 48 * 1024)
    PATCHBAY_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config{};
  config.gridDim = native(grid);
  config.blockDim = native(block);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = native(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  PATCHBAY_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<P>(std::forward<A>(arguments))...));
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
