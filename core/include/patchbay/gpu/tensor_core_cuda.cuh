/// @file tensor_core_cuda.cuh
/// tensor_core.cuh in PTX.
#pragma once
#include <type_traits>

#include "patchbay/gpu/async_copy.cuh"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

#define PATCHBAY_LDMATRIX(count, trans, outputs, ...)                                                       \
  asm volatile("ldmatrix.sync.aligned.m8n8.x" count trans ".shared.b16 {" outputs "}, [%" count "];"        \
               : __VA_ARGS__ : "r"(shared_address(row)) : "memory")
template <int N, bool transposed>
__device__ inline void load_matrices(std::uint32_t (&r)[N], const void* row) {
  if constexpr (N == 4 && !transposed) PATCHBAY_LDMATRIX("4", "", "%0,%1,%2,%3", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
  if constexpr (N == 4 && transposed) PATCHBAY_LDMATRIX("4", ".trans", "%0,%1,%2,%3", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
  if constexpr (N == 2 && !transposed) PATCHBAY_LDMATRIX("2", "", "%0,%1", "=r"(r[0]), "=r"(r[1]));
  if constexpr (N == 2 && transposed) PATCHBAY_LDMATRIX("2", ".trans", "%0,%1", "=r"(r[0]), "=r"(r[1]));
  if constexpr (N == 1 && !transposed) PATCHBAY_LDMATRIX("1", "", "%0", "=r"(r[0]));
  if constexpr (N == 1 && transposed) PATCHBAY_LDMATRIX("1", ".trans", "%0", "=r"(r[0]));
}
#undef PATCHBAY_LDMATRIX

#define PATCHBAY_MMA(shape, sum, type, constraint)                                                          \
  asm volatile("mma.sync.aligned." shape ".row.col." sum "." type "." type "." sum                          \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                     \
               : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
template <class T, class Sum>
__device__ inline void multiply_matrices(Sum (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, __half>) {
    PATCHBAY_MMA("m16n8k16", "f32", "f16", "+f");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    PATCHBAY_MMA("m16n8k16", "f32", "bf16", "+f");
  } else if constexpr (std::is_same_v<T, signed char>) {
    PATCHBAY_MMA("m16n8k32", "s32", "s8", "+r");
  } else {
    static_assert(std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, __nv_fp8_e5m2>, "no such matrix product");
#if __CUDA_ARCH__ >= 890
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) PATCHBAY_MMA("m16n8k32", "f32", "e4m3", "+f");
    if constexpr (std::is_same_v<T, __nv_fp8_e5m2>) PATCHBAY_MMA("m16n8k32", "f32", "e5m2", "+f");
#else
    __trap();  // 8-bit floats need sm_89: the launcher asks before it gets here
#endif
  }
#endif
}
#undef PATCHBAY_MMA

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
