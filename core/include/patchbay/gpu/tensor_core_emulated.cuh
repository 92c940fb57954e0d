/// @file tensor_core_emulated.cuh
/// tensor_core.cuh by core/src/gpu/matrix_operations.cpp. Sums run in order of k in fp32; the hardware's order and rounding are its own: compare with a
/// tolerance.
#pragma once
#include <type_traits>

#include "patchbay/gpu.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

template <int N, bool transposed>
PATCHBAY_GPU_INLINE void load_matrices(std::uint32_t (&r)[N], const void* row, emulator::CallSite site) {
  emulator::load_matrices({r, row}, N, transposed, site);
}

template <class T> constexpr emulator::MatrixNumber matrix_number() {
  using emulator::MatrixNumber;
  if constexpr (std::is_same_v<T, __half>) return MatrixNumber::f16;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return MatrixNumber::bf16;
  else if constexpr (std::is_same_v<T, signed char>) return MatrixNumber::s8;
  else if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) return MatrixNumber::e4m3;
  else {
    static_assert(std::is_same_v<T, __nv_fp8_e5m2>, "no such matrix product");
    return MatrixNumber::e5m2;
  }
}

template <class T, class Sum>
PATCHBAY_GPU_INLINE void multiply_matrices(Sum (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], emulator::CallSite site) {
  static_assert(std::is_same_v<Sum, std::conditional_t<std::is_same_v<T, signed char>, int, float>>,
                "8-bit integers are summed in int, floats in float");
  emulator::multiply_matrices(matrix_number<T>(), {d, a, b}, site);
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
