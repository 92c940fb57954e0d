// C[M,N] = A[M,K] * B[K,N] on tensor cores: fp16 or bf16 in, fp32 out. 64x64 tile of C per block, 4 warps of 32x32,
// two cp.async stages. M and N must be multiples of 64, K of 32.
#include "gpu/kernels/kernels.h"
#include "patchbay/gpu/async_copy.cuh"
#include "patchbay/gpu/tensor_core.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int TM = 64, TN = 64, TK = 32, PAD = 8, STAGES = 2;

template <class T>
__global__ void gemm_mma_kernel(const T* A, const T* B, float* C, int N, int K) {
  PATCHBAY_SHARED(T, As, [STAGES][TM][TK + PAD]);
  PATCHBAY_SHARED(T, Bs, [STAGES][TK][TN + PAD]);
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int row0 = blockIdx.y * TM, col0 = blockIdx.x * TN, wm = warp / 2 * 32, wn = warp % 2 * 32;
  auto load = [&](int stage, int k0) {             // 16 bytes (8 values) per copy
    for (int i = tid; i < TM * TK / 8; i += 128) {
      int r = i / (TK / 8), c = i % (TK / 8) * 8;
      gpu::cp_async16(&As[stage][r][c], &A[(row0 + r) * K + k0 + c]);
    }
    for (int i = tid; i < TK * TN / 8; i += 128) {
      int r = i / (TN / 8), c = i % (TN / 8) * 8;
      gpu::cp_async16(&Bs[stage][r][c], &B[(k0 + r) * N + col0 + c]);
    }
    gpu::cp_async_commit();
  };
  float acc[2][4][4] = {};
  load(0, 0);
  for (int k0 = 0, s = 0; k0 < K; k0 += TK, s ^= 1) {
    if (k0 + TK < K) {
      load(s ^ 1, k0 + TK);
      gpu::cp_async_wait<1>();  // current stage landed
    } else {
      gpu::cp_async_wait<0>();  // last stage landed
    }
    __syncthreads();  // stage visible to all
    for (int kk = 0; kk < TK; kk += 16) {
      uint32_t a[2][4], b[4][2];
      for (int i = 0; i < 2; ++i) gpu::ldmatrix_x4(a[i], &As[s][wm + i * 16 + lane % 16][kk + lane / 16 * 8]);
      for (int j = 0; j < 4; ++j) gpu::ldmatrix_x2_trans(b[j], &Bs[s][kk + lane % 16][wn + j * 8]);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) gpu::mma_m16n8k16<T>(acc[i][j], a[i], b[j]);
    }
    __syncthreads();  // stage free again
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e)
        C[(row0 + wm + i * 16 + lane / 4 + e / 2 * 8) * N + col0 + wn + j * 8 + lane % 4 * 2 + e % 2] = acc[i][j][e];
}

}  // namespace

void gemm_f16(const __half* A, const __half* B, float* C, int M, int N, int K, gpu::Stream stream) {
  gpu::launch({N / TN, M / TM}, 128, 0, stream, gemm_mma_kernel<__half>, A, B, C, N, K);
}
void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K, gpu::Stream stream) {
  gpu::launch({N / TN, M / TM}, 128, 0, stream, gemm_mma_kernel<__nv_bfloat16>, A, B, C, N, K);
}

}  // namespace patchbay::PATCHBAY_GPU
