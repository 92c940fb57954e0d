/// @file element.cuh
/// Values of any stored type as floats and back (round to nearest, ties to even), and packs of them in loads of up to 16 bytes.
#pragma once
#include <cstdint>

#include "patchbay/gpu.h"
#include "patchbay/gpu/vector.cuh"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(std::int8_t x) { return static_cast<float>(x); }
__device__ inline float to_float(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
__device__ inline float to_float(__nv_fp8_e5m2 x) { return static_cast<float>(x); }

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}
/// Saturates to the largest finite number, as NVIDIA's conversion does; NaN stays NaN.
template <>
__device__ inline __nv_fp8_e4m3 from_float<__nv_fp8_e4m3>(float x) {
  return __nv_fp8_e4m3(x);
}
template <>
__device__ inline __nv_fp8_e5m2 from_float<__nv_fp8_e5m2>(float x) {
  return __nv_fp8_e5m2(x);
}

/// N values, however many bytes they are.
template <class T, int N>
struct Pack {
  T at[N];
};

/// In as few loads as can be. Memory must be aligned to the pack's size, or to 16.
template <int N, class T>
__device__ inline Pack<T, N> load_pack(const T* from) {
  constexpr int kStep = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
  Pack<T, N> pack;
  for (int i = 0; i < N; i += kStep) {
    if constexpr (kStep * sizeof(T) >= 4) {
      const Vector<T, kStep> part = load<kStep>(from + i);
      for (int j = 0; j < kStep; ++j) pack.at[i + j] = part[j];
    } else {
      for (int j = 0; j < kStep; ++j) pack.at[i + j] = from[i + j];
    }
  }
  return pack;
}
template <class T, int N>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
  constexpr int kStep = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
  for (int i = 0; i < N; i += kStep) {
    if constexpr (kStep * sizeof(T) >= 4) {
      Vector<T, kStep> part;
      for (int j = 0; j < kStep; ++j) part[j] = pack.at[i + j];
      store(to + i, part);
    } else {
      for (int j = 0; j < kStep; ++j) to[i + j] = pack.at[i + j];
    }
  }
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
