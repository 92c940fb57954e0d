// y[N] = dequant(W)[N,K] * x[K]. W holds 8 unsigned 4-bit values per word; each group of G values along K
// has an fp16 scale; zero point 8. One warp per row; x and the row's scales are staged in shared memory.
#include "gpu/kernels/kernels.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int WARPS = 4;

__global__ void gemv_int4_kernel(const uint32_t* W, const __half* scales, const __half* x, float* y,
                          int N, int K, int G) {
  PATCHBAY_DYNAMIC_SHARED(float, smem);                    // x[K], then scales[WARPS][K / G]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x * WARPS + warp;
  const int groups = K / G;
  float* xs = smem;
  float* ss = smem + K + warp * groups;
  for (int i = threadIdx.x; i < K; i += blockDim.x) xs[i] = __half2float(x[i]);
  __syncthreads();  // x loaded
  if (row >= N) return;
  for (int g = lane; g < groups; g += 32) ss[g] = __half2float(scales[row * groups + g]);
  __syncwarp();  // scales loaded
  float sum = 0.0f;
  for (int w = lane; w < K / 8; w += 32) {
    uint32_t packed = W[row * (K / 8) + w];
    float part = 0.0f;
    for (int j = 0; j < 8; ++j) part += float(int(packed >> (4 * j) & 15) - 8) * xs[w * 8 + j];
    sum += part * ss[w * 8 / G];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) y[row] = sum;
}

}  // namespace

void gemv_int4(const uint32_t* W, const __half* scales, const __half* x, float* y, int N, int K, int G, gpu::Stream stream) {
  size_t smem = (K + WARPS * (K / G)) * sizeof(float);
  gpu::launch(gpu::ceil_div(N, WARPS), 32 * WARPS, smem, stream, gemv_int4_kernel, W, scales, x, y, N, K, G);
}

}  // namespace patchbay::PATCHBAY_GPU
