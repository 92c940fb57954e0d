/// @file vector.cuh
/// Several values in one load or store: 4, 8 or 16 bytes, aligned to their size.
#pragma once
#include <cstring>

#include "patchbay/gpu.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

template <int bytes> struct WordsOf;
template <> struct WordsOf<4> { using type = unsigned; };
template <> struct WordsOf<8> { using type = uint2; };
template <> struct WordsOf<16> { using type = uint4; };

/// N values of T that travel together: `Vector<__half, 8> v = load<8>(pointer);`
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  static_assert(sizeof(T) * N == 4 || sizeof(T) * N == 8 || sizeof(T) * N == 16, "one load moves 4, 8 or 16 bytes");
  T values[N];
  __device__ T& operator[](int i) { return values[i]; }
  __device__ const T& operator[](int i) const { return values[i]; }
};

/// N values from memory that is aligned to N * sizeof(T).
template <int N, class T> __device__ inline Vector<T, N> load(const T* from) {
  using Words = typename WordsOf<static_cast<int>(sizeof(T)) * N>::type;
  const Words words = *reinterpret_cast<const Words*>(from);
  Vector<T, N> result;
  memcpy(static_cast<void*>(&result), &words, sizeof result);
  return result;
}
/// The same for memory that nothing writes while the kernel runs.
template <int N, class T> __device__ inline Vector<T, N> load_readonly(const T* from) {
  using Words = typename WordsOf<static_cast<int>(sizeof(T)) * N>::type;
  const Words words = __ldg(reinterpret_cast<const Words*>(from));
  Vector<T, N> result;
  memcpy(static_cast<void*>(&result), &words, sizeof result);
  return result;
}
template <class T, int N> __device__ inline void store(T* to, const Vector<T, N>& values) {
  using Words = typename WordsOf<static_cast<int>(sizeof(T)) * N>::type;
  Words words;
  memcpy(static_cast<void*>(&words), &values, sizeof words);
  *reinterpret_cast<Words*>(to) = words;
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
