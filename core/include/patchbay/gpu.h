/// @file gpu.h
/// Write a CUDA kernel once. nvcc builds it for GPUs; g++ builds the same file for the emulator, where it runs on the CPU with the
/// meaning that CUDA gives it (docs/emulator.md). This header is what a kernel's author includes.
///
/// A `.cu` file is compiled up to three times, with the macro PATCHBAY_GPU set to the name of the world it is built for:
///   cuda          by nvcc, for a GPU
///   simt          by g++, at full speed
///   simt_checked  by g++ with every memory access instrumented: races, bounds, uninitialised shared memory, counters
/// and looks like this:
///
///     namespace patchbay::PATCHBAY_GPU {
///     namespace {
///     __global__ void scale(float* x, int n, float factor) {
///       const int i = blockIdx.x * blockDim.x + threadIdx.x;
///       if (i < n) x[i] *= factor;
///     }
///     }  // namespace
///     void scale_all(float* x, int n, float factor, gpu::Stream stream) {
///       gpu::launch(gpu::ceil_div(n, 256), 256, 0, stream, scale, x, n, factor);
///     }
///     }  // namespace patchbay::PATCHBAY_GPU
///
/// Others declare and call it through `PATCHBAY_GPU_LAUNCHER(void, scale_all, (float*, int, float, gpu::Stream))`: see gpu/host.h.
///
/// What differs from CUDA:
///   - shared memory: `PATCHBAY_SHARED(float, tile, [16][33]);` and, for the dynamic kind, `PATCHBAY_DYNAMIC_SHARED(float, buffer);`
///     (a pointer), both aligned to 16 bytes; `__shared__` itself is refused by g++, where it would silently make a variable of each thread
///   - launches: `gpu::launch(grid, block, shared_bytes, stream, kernel, arguments...)` instead of <<<>>>
///   - async copies, tensor cores and other PTX: through gpu/async_copy.cuh, gpu/tensor_core.cuh
/// All else (threadIdx, __syncthreads, __shfl_xor_sync, __ballot_sync, atomicAdd, __ldg, __half2float ...) is CUDA's.
#pragma once
#include "patchbay/gpu/host.h"

#if defined(__CUDACC__)
#include "patchbay/gpu/cuda.cuh"
#elif defined(PATCHBAY_GPU)
#include "patchbay/gpu/emulated.cuh"
#endif
