// Addresses that are not the kernel's to touch.
#include "gpu/broken/broken.h"
#include "gpu/broken/helper.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void shared_off_by_one_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  tile[threadIdx.x] = 1;
  __syncthreads();
  const float* next = &tile[threadIdx.x];
  out[threadIdx.x] = next[1];
}

// Row 0, column 9 is row 1, column 1: inside the array, outside of the row.
__global__ void shared_inner_index_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [8][8]);
  tile[threadIdx.x / 8][threadIdx.x % 8] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x / 16][threadIdx.x % 16];
}

__global__ void dynamic_shared_too_small_kernel(float* out) {
  PATCHBAY_DYNAMIC_SHARED(float, tile);
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void global_off_by_one_kernel(float* out) { out[threadIdx.x + 1] = 1; }

__global__ void misaligned_vector_kernel(float* out) {
  const float4 four = *reinterpret_cast<const float4*>(out + threadIdx.x % 2);
  if (threadIdx.x < 2) *reinterpret_cast<float4*>(out + 32 + 4 * threadIdx.x) = four;
}

__global__ void uninitialised_shared_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [64]);
  if (threadIdx.x != 5) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void wild_pointer_kernel(float* out) { out[std::size_t{1} << 42] = 1; }

__global__ void division_by_zero_kernel(float* out) {
  const int rows = static_cast<int>(threadIdx.x) - 5;
  out[threadIdx.x] = static_cast<float>(64 / rows);
}

__global__ void stack_too_small_kernel(float* out) {
  volatile float large[100000];
  for (int i = 0; i < 100000; ++i) large[i] = static_cast<float>(i);
  out[threadIdx.x] = large[threadIdx.x];
}

#if defined(__CUDACC__)
constexpr int kTooLarge = 64;  // nvcc refuses the other by itself
#else
constexpr int kTooLarge = 20000;
#endif
__global__ void static_shared_too_large_kernel(float* out) {
  PATCHBAY_SHARED(float, tile, [kTooLarge]);
  tile[threadIdx.x] = 1;
  out[threadIdx.x] = tile[threadIdx.x];
}

__device__ float depth_of(float* out, int depth) { return out[depth % 2] > 1 ? 0.0f : depth_of(out, depth + 1) + 1; }
__global__ void endless_recursion_kernel(float* out) {
  if (threadIdx.x == 0) out[0] = out[1] = 0;
  if (threadIdx.x == 0) out[2] = depth_of(out, 0);
}

__constant__ const float kTable[2] = {1, 2};
__global__ void writes_constant_kernel(float* out) {
  float* to = const_cast<float*>(kTable);
  asm volatile("" : "+r"(to));  // so that the compiler does not see it
  out[0] = to[1];
  to[0] = 3;
}

__global__ void helper_leaves_memory_kernel(float* out) { store_far(out, 1); }

__global__ void copies_input_kernel(float* out) { out[threadIdx.x] = out[threadIdx.x] + 1; }

}  // namespace

void shared_off_by_one(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, shared_off_by_one_kernel, out); }
void shared_inner_index(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, shared_inner_index_kernel, out); }
void dynamic_shared_too_small(float* out, gpu::Stream stream) { gpu::launch(1, 64, 63 * sizeof(float), stream, dynamic_shared_too_small_kernel, out); }
void global_off_by_one(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, global_off_by_one_kernel, out); }
void misaligned_vector(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, misaligned_vector_kernel, out); }
void uninitialised_shared(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, uninitialised_shared_kernel, out); }
void wild_pointer(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, wild_pointer_kernel, out); }
void stack_too_small(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, stack_too_small_kernel, out); }
void static_shared_too_large(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, static_shared_too_large_kernel, out); }
void division_by_zero(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, division_by_zero_kernel, out); }
void endless_recursion(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, endless_recursion_kernel, out); }
void writes_constant(float* out, gpu::Stream stream) { gpu::launch(1, 1, 0, stream, writes_constant_kernel, out); }
void helper_leaves_memory(float* out, gpu::Stream stream) { gpu::launch(1, 1, 0, stream, helper_leaves_memory_kernel, out); }
void copies_input(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, copies_input_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
