// ldmatrix and mma.sync. Fragments are filled element by element, in the words of the PTX ISA ("Matrix Fragments for mma.m16n8k16",
// "... mma.m16n8k32"): element i of a thread's fragment lies in row ..., column ...
#include "gpu/primitives/primitives.h"
#include "patchbay/gpu/tensor_core.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

template <int N, bool transposed>
__global__ void matrix_loads_kernel(const std::uint16_t* in, std::uint32_t* out) {
  PATCHBAY_SHARED(std::uint16_t, tile, [N * 8][8]);
  const int lane = threadIdx.x;
  for (int i = lane; i < N * 64; i += 32) tile[i / 8][i % 8] = in[i];
  __syncwarp();
  std::uint32_t r[N];
  const void* row = &tile[lane % (N * 8)][0];
  if constexpr (N == 1) transposed ? gpu::ldmatrix_x1_trans(r, row) : gpu::ldmatrix_x1(r, row);
  if constexpr (N == 2) transposed ? gpu::ldmatrix_x2_trans(r, row) : gpu::ldmatrix_x2(r, row);
  if constexpr (N == 4) transposed ? gpu::ldmatrix_x4_trans(r, row) : gpu::ldmatrix_x4(r, row);
  for (int i = 0; i < N; ++i) out[i * 32 + lane] = r[i];
}

/// Element `index` of a fragment that is kept in registers of 32 bits.
template <class T> __device__ void set_element(std::uint32_t* registers, int index, T value) {
  memcpy(reinterpret_cast<char*>(registers) + index * sizeof(T), &value, sizeof(T));
}

template <class T, class Sum>
__global__ void product_kernel(const T* a, const T* b, Sum* d) {
  constexpr int kBytes = sizeof(T), kDepth = 32 / kBytes, kPer = 4 / kBytes;  // elements of a register
  const int lane = threadIdx.x, groupID = lane >> 2, threadID_in_group = lane % 4;
  std::uint32_t ra[4], rb[2];
  for (int i = 0; i < 4 * kPer; ++i) {
    const bool upper = kBytes == 2 ? (i < 2 || (i >= 4 && i < 6)) : (i < 4 || (i >= 8 && i < 12));
    const int row = upper ? groupID : groupID + 8;
    const int col = threadID_in_group * kPer + (i & (kPer - 1)) + (i < 2 * kPer ? 0 : kDepth / 2);
    set_element(ra, i, a[row * kDepth + col]);
  }
  for (int i = 0; i < 2 * kPer; ++i) {
    const int row = threadID_in_group * kPer + (i & (kPer - 1)) + (i < kPer ? 0 : kDepth / 2);
    set_element(rb, i, b[row * 8 + groupID]);
  }
  Sum rd[4] = {1, 2, 3, 4};
  if constexpr (kBytes == 2) gpu::mma_m16n8k16<T>(rd, ra, rb);
  else gpu::mma_m16n8k32<T>(rd, ra, rb);
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? groupID : groupID + 8, col = threadID_in_group * 2 + (i & 1);
    d[row * 8 + col] = rd[i] - static_cast<Sum>(i + 1);
  }
}

}  // namespace

void matrix_loads(const std::uint16_t* in, std::uint32_t* out, int matrices, bool transposed, gpu::Stream stream) {
  const auto kernel = matrices == 1   ? (transposed ? matrix_loads_kernel<1, true> : matrix_loads_kernel<1, false>)
                      : matrices == 2 ? (transposed ? matrix_loads_kernel<2, true> : matrix_loads_kernel<2, false>)
                                      : (transposed ? matrix_loads_kernel<4, true> : matrix_loads_kernel<4, false>);
  gpu::launch(1, 32, 0, stream, kernel, in, out);
}
void product_f16(const __half* a, const __half* b, float* d, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, product_kernel<__half, float>, a, b, d); }
void product_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d, gpu::Stream stream) {
  gpu::launch(1, 32, 0, stream, product_kernel<__nv_bfloat16, float>, a, b, d);
}
void product_s8(const signed char* a, const signed char* b, int* d, gpu::Stream stream) {
  gpu::launch(1, 32, 0, stream, product_kernel<signed char, int>, a, b, d);
}
void product_e4m3(const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, float* d, gpu::Stream stream) {
  gpu::launch(1, 32, 0, stream, product_kernel<__nv_fp8_e4m3, float>, a, b, d);
}
void product_e5m2(const __nv_fp8_e5m2* a, const __nv_fp8_e5m2* b, float* d, gpu::Stream stream) {
  gpu::launch(1, 32, 0, stream, product_kernel<__nv_fp8_e5m2, float>, a, b, d);
}

}  // namespace patchbay::PATCHBAY_GPU
