#include "gpu/device_kernels.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void fill_kernel(float* out, int n, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}
__global__ void take_shared_kernel(float* out, int last) {
  PATCHBAY_DYNAMIC_SHARED(float, shared);
  shared[last] = 1;
  out[0] = shared[last];
}

}  // namespace

void fill(float* out, int n, float value, gpu::Stream stream) {
  gpu::launch(gpu::ceil_div(n, 64), 64, 0, stream, fill_kernel, out, n, value);
}
void fill_too_far(float* out, int n, float value, gpu::Stream stream) { fill(out, n + 1, value, stream); }
void take_shared(float* out, std::size_t bytes, gpu::Stream stream) {
  gpu::launch(1, 1, bytes, stream, take_shared_kernel, out, static_cast<int>(bytes / sizeof(float)) - 1);
}

}  // namespace patchbay::PATCHBAY_GPU
