/// @file emulated_math.cuh
/// CUDA's arithmetic functions that C++ lacks, for the emulator. The fast ones (__expf ...) are as exact as the C library's:
/// a kernel must not count on either. Sums and products are never contracted to fma: nvcc does that by itself.
#pragma once
#include <math.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "patchbay/gpu/host.h"

template <class T> PATCHBAY_GPU_INLINE T __ldg(const T* pointer) { return *pointer; }
template <class T> PATCHBAY_GPU_INLINE T __ldcg(const T* pointer) { return *pointer; }
template <class T> PATCHBAY_GPU_INLINE T __ldcs(const T* pointer) { return *pointer; }
template <class T> PATCHBAY_GPU_INLINE void __stcs(T* pointer, T value) { *pointer = value; }
template <class T> PATCHBAY_GPU_INLINE void __stcg(T* pointer, T value) { *pointer = value; }

template <class A, class B> requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
PATCHBAY_GPU_INLINE constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B> requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
PATCHBAY_GPU_INLINE constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

PATCHBAY_GPU_INLINE float __expf(float x) { return expf(x); }
PATCHBAY_GPU_INLINE float __exp10f(float x) { return powf(10.0f, x); }
PATCHBAY_GPU_INLINE float __logf(float x) { return logf(x); }
PATCHBAY_GPU_INLINE float __log2f(float x) { return log2f(x); }
PATCHBAY_GPU_INLINE float __log10f(float x) { return log10f(x); }
PATCHBAY_GPU_INLINE float __sinf(float x) { return sinf(x); }
PATCHBAY_GPU_INLINE float __cosf(float x) { return cosf(x); }
PATCHBAY_GPU_INLINE float __powf(float x, float y) { return powf(x, y); }
PATCHBAY_GPU_INLINE void __sincosf(float x, float* sine, float* cosine) { *sine = sinf(x); *cosine = cosf(x); }
PATCHBAY_GPU_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
PATCHBAY_GPU_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
PATCHBAY_GPU_INLINE float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
PATCHBAY_GPU_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
PATCHBAY_GPU_INLINE float __frcp_rn(float x) { return 1.0f / x; }
PATCHBAY_GPU_INLINE float __fdividef(float a, float b) { return a / b; }
PATCHBAY_GPU_INLINE float __fdiv_rn(float a, float b) { return a / b; }
PATCHBAY_GPU_INLINE float __fadd_rn(float a, float b) { return a + b; }
PATCHBAY_GPU_INLINE float __fsub_rn(float a, float b) { return a - b; }
PATCHBAY_GPU_INLINE float __fmul_rn(float a, float b) { return a * b; }
PATCHBAY_GPU_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
PATCHBAY_GPU_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

PATCHBAY_GPU_INLINE int __float_as_int(float x) { return std::bit_cast<int>(x); }
PATCHBAY_GPU_INLINE unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
PATCHBAY_GPU_INLINE float __int_as_float(int x) { return std::bit_cast<float>(x); }
PATCHBAY_GPU_INLINE float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
PATCHBAY_GPU_INLINE long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
PATCHBAY_GPU_INLINE double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
PATCHBAY_GPU_INLINE float __int2float_rn(int x) { return static_cast<float>(x); }
PATCHBAY_GPU_INLINE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
/// To int as the hardware does: what does not fit saturates, NaN becomes 0.
PATCHBAY_GPU_INLINE int patchbay_saturated_int(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : static_cast<int>(x);
}
PATCHBAY_GPU_INLINE int __float2int_rn(float x) { return patchbay_saturated_int(nearbyintf(x)); }
PATCHBAY_GPU_INLINE int __float2int_rz(float x) { return patchbay_saturated_int(truncf(x)); }
PATCHBAY_GPU_INLINE int __float2int_rd(float x) { return patchbay_saturated_int(floorf(x)); }
PATCHBAY_GPU_INLINE int __float2int_ru(float x) { return patchbay_saturated_int(ceilf(x)); }
PATCHBAY_GPU_INLINE unsigned __float2uint_rn(float x) {
  const float r = nearbyintf(x);
  return !(r > 0.0f) ? 0u : r >= 4294967296.0f ? ~0u : static_cast<unsigned>(r);
}

PATCHBAY_GPU_INLINE int __popc(unsigned x) { return std::popcount(x); }
PATCHBAY_GPU_INLINE int __popcll(unsigned long long x) { return std::popcount(x); }
PATCHBAY_GPU_INLINE int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
PATCHBAY_GPU_INLINE int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
PATCHBAY_GPU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
PATCHBAY_GPU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
PATCHBAY_GPU_INLINE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}
PATCHBAY_GPU_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
PATCHBAY_GPU_INLINE int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
PATCHBAY_GPU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
PATCHBAY_GPU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
/// Four bytes of the eight in a and b, chosen by the digits of `selector`.
PATCHBAY_GPU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long all = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i) & 15u;
    unsigned byte = static_cast<unsigned>(all >> (8 * (pick & 7u))) & 0xFFu;
    if (pick & 8u) byte = byte & 0x80u ? 0xFFu : 0u;  // the sign, replicated
    result |= byte << (8 * i);
  }
  return result;
}
/// c + the dot product of four signed bytes.
PATCHBAY_GPU_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c = static_cast<int>(static_cast<unsigned>(c) + static_cast<unsigned>(static_cast<int>(static_cast<signed char>(a >> (8 * i))) *
                                                                          static_cast<int>(static_cast<signed char>(b >> (8 * i)))));
  return c;
}
PATCHBAY_GPU_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xFFu) * (b >> (8 * i) & 0xFFu);
  return c;
}
