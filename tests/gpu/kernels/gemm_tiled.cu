// C[M,N] = A[M,K] * B[K,N], fp32, one 32x32 tile of C per block, staged through shared memory.
#include "gpu/kernels/kernels.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int BM = 32, BN = 32, BK = 16;  // block of 16x16 threads, each computes 2x2 outputs

__global__ void gemm_tiled_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
  PATCHBAY_SHARED(float, As, [BM][BK + 1]);
  PATCHBAY_SHARED(float, Bs, [BK][BN]);
  const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  float acc[2][2] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = tid; i < BM * BK; i += 256) {
      int r = i / BK, c = i % BK;
      As[r][c] = row0 + r < M && k0 + c < K ? A[(row0 + r) * K + k0 + c] : 0.0f;
    }
    for (int i = tid; i < BK * BN; i += 256) {
      int r = i / BN, c = i % BN;
      Bs[r][c] = k0 + r < K && col0 + c < N ? B[(k0 + r) * N + col0 + c] : 0.0f;
    }
    __syncthreads();  // tile loaded
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) acc[i][j] += As[ty + 16 * i][k] * Bs[k][tx + 16 * j];
    __syncthreads();  // tile used
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      int r = row0 + ty + 16 * i, c = col0 + tx + 16 * j;
      if (r < M && c < N) C[r * N + c] = acc[i][j];
    }
}

}  // namespace

void gemm_tiled(const float* A, const float* B, float* C, int M, int N, int K, gpu::Stream stream) {
  gpu::launch({gpu::ceil_div(N, BN), gpu::ceil_div(M, BM)}, {16, 16}, 0, stream, gemm_tiled_kernel, A, B, C, M, N, K);
}

}  // namespace patchbay::PATCHBAY_GPU
