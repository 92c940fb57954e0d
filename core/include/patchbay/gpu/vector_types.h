/// @file vector_types.h
/// CUDA's small vectors (float4, uint2, dim3 ...) for builds by g++. Aligned to their size and copied as a whole, so that the
/// emulator sees one access where the GPU makes one.
#pragma once
#include <type_traits>

namespace patchbay::gpu::numbers {

template <int bytes> struct WholeOf;
template <> struct WholeOf<2> { typedef unsigned short type __attribute__((may_alias)); };
template <> struct WholeOf<4> { typedef unsigned int type __attribute__((may_alias)); };
template <> struct WholeOf<8> { typedef unsigned long long type __attribute__((may_alias)); };
template <> struct WholeOf<16> { typedef unsigned long long type __attribute__((vector_size(16), may_alias)); };
/// One load and one store of the whole vector.
template <class V> inline __attribute__((always_inline)) void copy_whole(V* to, const V* from) {
  using Whole = typename WholeOf<static_cast<int>(sizeof(V))>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}

}  // namespace patchbay::gpu::numbers

#define PATCHBAY_GPU_COPY_WHOLE(V)                                                                                                  \
  V() = default;                                                                                                                    \
  inline __attribute__((always_inline)) V(const V& other) { patchbay::gpu::numbers::copy_whole(this, &other); }                     \
  inline __attribute__((always_inline)) V& operator=(const V& other) { patchbay::gpu::numbers::copy_whole(this, &other); return *this; }
#define PATCHBAY_GPU_VECTORS(T, base)                                                                                               \
  struct base##1 { T x; };                                                                                                          \
  struct alignas(2 * sizeof(T)) base##2 {                                                                                           \
    T x, y;                                                                                                                         \
    PATCHBAY_GPU_COPY_WHOLE(base##2)                                                                                                \
    inline __attribute__((always_inline)) base##2(T x_, T y_) : x(x_), y(y_) {}                                                     \
  };                                                                                                                                \
  struct base##3 { T x, y, z; };                                                                                                    \
  inline __attribute__((always_inline)) base##1 make_##base##1(T x) { return {x}; }                                                 \
  inline __attribute__((always_inline)) base##2 make_##base##2(T x, T y) { return {x, y}; }                                         \
  inline __attribute__((always_inline)) base##3 make_##base##3(T x, T y, T z) { return {x, y, z}; }
#define PATCHBAY_GPU_VECTOR4(T, base)                                                                                               \
  struct alignas(4 * sizeof(T)) base##4 {                                                                                           \
    T x, y, z, w;                                                                                                                   \
    PATCHBAY_GPU_COPY_WHOLE(base##4)                                                                                                \
    inline __attribute__((always_inline)) base##4(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}                           \
  };                                                                                                                                \
  inline __attribute__((always_inline)) base##4 make_##base##4(T x, T y, T z, T w) { return {x, y, z, w}; }
PATCHBAY_GPU_VECTORS(signed char, char)
PATCHBAY_GPU_VECTOR4(signed char, char)
PATCHBAY_GPU_VECTORS(unsigned char, uchar)
PATCHBAY_GPU_VECTOR4(unsigned char, uchar)
PATCHBAY_GPU_VECTORS(short, short)
PATCHBAY_GPU_VECTOR4(short, short)
PATCHBAY_GPU_VECTORS(unsigned short, ushort)
PATCHBAY_GPU_VECTOR4(unsigned short, ushort)
PATCHBAY_GPU_VECTORS(int, int)
PATCHBAY_GPU_VECTOR4(int, int)
PATCHBAY_GPU_VECTORS(unsigned int, uint)
PATCHBAY_GPU_VECTOR4(unsigned int, uint)
PATCHBAY_GPU_VECTORS(float, float)
PATCHBAY_GPU_VECTOR4(float, float)
PATCHBAY_GPU_VECTORS(double, double)
PATCHBAY_GPU_VECTORS(long long, longlong)
PATCHBAY_GPU_VECTORS(unsigned long long, ulonglong)
#undef PATCHBAY_GPU_VECTORS
#undef PATCHBAY_GPU_VECTOR4
#undef PATCHBAY_GPU_COPY_WHOLE

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
