/// @file tensor_core.cuh
/// Small matrix products of a warp (mma.sync) and the loads that feed them (ldmatrix). All 32 lanes must take part.
///
/// Who holds what (PTX ISA, "Matrix fragments"); g = lane / 4, t = lane % 4:
///   A, 16 x 16 of 2 bytes (16 x 32 of 1 byte): a[i] holds row g + i % 2 * 8, columns (i / 2 * 8 + t * 2) + {0, 1}
///                                              (columns (i / 2 * 16 + t * 4) + {0 .. 3})
///   B, 16 x 8 of 2 bytes (32 x 8 of 1 byte):   b[i] holds rows (i * 8 + t * 2) + {0, 1} (rows (i * 16 + t * 4) + {0 .. 3}) of column g
///   D, 16 x 8:                                 d[i] is row g + i / 2 * 8, column t * 2 + i % 2
/// The low bits of a register hold the first column (row).
#pragma once
#include <cstdint>

#include "patchbay/gpu.h"
#if defined(__CUDACC__)
#include "patchbay/gpu/tensor_core_cuda.cuh"
#else
#include "patchbay/gpu/tensor_core_emulated.cuh"
#endif

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

#if defined(__CUDACC__)
#define PATCHBAY_GPU_SITE_PARAMETER_
#define PATCHBAY_GPU_SITE_ARGUMENT_
#else
#define PATCHBAY_GPU_SITE_PARAMETER_ , PATCHBAY_GPU_SITE
#define PATCHBAY_GPU_SITE_ARGUMENT_ , site
#endif

/// Four 8 x 8 matrices of 2-byte elements from shared memory: lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, aligned to 16),
/// and gets, of each matrix, elements t * 2 and t * 2 + 1 of row g.
__device__ inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<4, false>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}
/// Two matrices: lanes 0 to 15 give the rows.
__device__ inline void ldmatrix_x2(std::uint32_t (&r)[2], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<2, false>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}
__device__ inline void ldmatrix_x1(std::uint32_t (&r)[1], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<1, false>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}
/// Transposed: each lane gets elements t * 2 and t * 2 + 1 of column g.
__device__ inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<4, true>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}
__device__ inline void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<2, true>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}
__device__ inline void ldmatrix_x1_trans(std::uint32_t (&r)[1], const void* row PATCHBAY_GPU_SITE_PARAMETER_) {
  load_matrices<1, true>(r, row PATCHBAY_GPU_SITE_ARGUMENT_);
}

/// d += a b for 16 x 16 times 16 x 8 of T = __half or __nv_bfloat16, summed in fp32 (sm_80).
template <class T>
__device__ inline void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2] PATCHBAY_GPU_SITE_PARAMETER_) {
  multiply_matrices<T>(d, a, b PATCHBAY_GPU_SITE_ARGUMENT_);
}
/// d += a b for 16 x 32 times 32 x 8 of T = signed char (sums are int, exact; sm_80) or __nv_fp8_e4m3, __nv_fp8_e5m2 (sums are fp32; sm_89).
template <class T, class Sum>
__device__ inline void mma_m16n8k32(Sum (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2] PATCHBAY_GPU_SITE_PARAMETER_) {
  multiply_matrices<T>(d, a, b PATCHBAY_GPU_SITE_ARGUMENT_);
}
#undef PATCHBAY_GPU_SITE_PARAMETER_
#undef PATCHBAY_GPU_SITE_ARGUMENT_

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
