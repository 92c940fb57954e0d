// Warp operations whose lanes are not those that the mask promises.
#include "gpu/broken/broken.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

// The guard sends the tail's lanes home, and the sum reads them.
__global__ void lane_left_early_kernel(float* out, int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  float sum = 1;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x == 0) out[0] = sum;
}

__global__ void lane_outside_mask_kernel(float* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_sync(0xFFFFu, 1.0f, 20);
}

// One mask, two operations.
__global__ void two_operations_at_once_kernel(float* out) {
  if (threadIdx.x % 2) out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
  else out[threadIdx.x] = static_cast<float>(__ballot_sync(~0u, 1));
}

__global__ void caller_not_in_mask_kernel(float* out) { out[threadIdx.x] = static_cast<float>(__ballot_sync(0xFFFFu, 1)); }

}  // namespace

void lane_left_early(float* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, lane_left_early_kernel, out, 20); }
void lane_outside_mask(float* out, gpu::Stream stream) { gpu::launch(1, 64, 0, stream, lane_outside_mask_kernel, out); }
void two_operations_at_once(float* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, two_operations_at_once_kernel, out); }
void caller_not_in_mask(float* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, caller_not_in_mask_kernel, out); }

}  // namespace patchbay::PATCHBAY_GPU
