/// @file half_types.h
/// __half and __nv_bfloat16, their pairs, and CUDA's functions on them, for builds by g++: bit for bit what the hardware gives.
/// nvcc uses NVIDIA's own headers instead.
#pragma once
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "patchbay/half.h"

/// Inlined in every build: no copy is emitted that a linker could put in place of the instrumented one.
#define PATCHBAY_GPU_INLINE inline __attribute__((always_inline))

namespace patchbay::gpu::numbers {

/// A double that stands for the sum `a + c` as far as rounding to half the width or less goes: rounded to odd, so that
/// rounding a second time is harmless.
PATCHBAY_GPU_INLINE double odd_sum(double a, double c) {
  const double sum = a + c;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - a, error = (a - (sum - back)) + (c - back);  // exact: Knuth's two-sum
  if (error == 0.0 || (std::bit_cast<std::uint64_t>(sum) & 1)) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}
PATCHBAY_GPU_INLINE float odd_float(double value) {
  const float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || !std::isfinite(rounded) || (std::bit_cast<std::uint32_t>(rounded) & 1)) return rounded;
  return std::nextafterf(rounded, value > static_cast<double>(rounded) ? HUGE_VALF : -HUGE_VALF);
}

struct HalfCodec {
  static constexpr std::uint16_t kNaN = 0x7FFF;  // what the hardware makes of every NaN
  PATCHBAY_GPU_INLINE static float decode(std::uint16_t bits) { return to_float(patchbay::Half{bits}); }
  PATCHBAY_GPU_INLINE static std::uint16_t encode(float value) { return value != value ? kNaN : to_half(value).bits; }
};
struct BFloat16Codec {
  static constexpr std::uint16_t kNaN = 0x7FFF;
  PATCHBAY_GPU_INLINE static float decode(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  PATCHBAY_GPU_INLINE static std::uint16_t encode(float value) { return value != value ? kNaN : to_bfloat16(value).bits; }
};

}  // namespace patchbay::gpu::numbers

// The members are the same for both types; only the codec and the names differ.
#define PATCHBAY_GPU_NUMBER(Name, Raw, Codec_)                                                                              \
  struct Raw { unsigned short x; };                                                                                         \
  struct alignas(2) Name {                                                                                                  \
    using Codec = patchbay::gpu::numbers::Codec_;                                                                           \
    unsigned short __x;                                                                                                     \
    Name() = default;                                                                                                       \
    PATCHBAY_GPU_INLINE constexpr Name(const Raw& raw) : __x(raw.x) {}                                                      \
    PATCHBAY_GPU_INLINE Name(float value) : __x(Codec::encode(value)) {}                                                    \
    PATCHBAY_GPU_INLINE Name(double value) : __x(Codec::encode(patchbay::gpu::numbers::odd_float(value))) {}                \
    template <std::integral I> PATCHBAY_GPU_INLINE Name(I value) : Name(static_cast<double>(value)) {}                      \
    PATCHBAY_GPU_INLINE operator float() const { return Codec::decode(__x); }                                               \
    PATCHBAY_GPU_INLINE operator Raw() const { return {__x}; }                                                              \
    template <std::integral I> PATCHBAY_GPU_INLINE explicit operator I() const { return static_cast<I>(Codec::decode(__x)); } \
    PATCHBAY_GPU_INLINE explicit operator double() const { return static_cast<double>(Codec::decode(__x)); }                \
    PATCHBAY_GPU_INLINE Name& operator+=(const Name& other);                                                                \
    PATCHBAY_GPU_INLINE Name& operator-=(const Name& other);                                                                \
    PATCHBAY_GPU_INLINE Name& operator*=(const Name& other);                                                                \
    PATCHBAY_GPU_INLINE Name& operator/=(const Name& other);                                                                \
  }
PATCHBAY_GPU_NUMBER(__half, __half_raw, HalfCodec);
PATCHBAY_GPU_NUMBER(__nv_bfloat16, __nv_bfloat16_raw, BFloat16Codec);
#undef PATCHBAY_GPU_NUMBER
using half = __half;
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __half2 {
  using Element = __half;
  __half x, y;
  __half2() = default;
  PATCHBAY_GPU_INLINE __half2(__half low, __half high) : x(low), y(high) {}
};
struct alignas(4) __nv_bfloat162 {
  using Element = __nv_bfloat16;
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  PATCHBAY_GPU_INLINE __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};
using half2 = __half2;
using nv_bfloat162 = __nv_bfloat162;

namespace patchbay::gpu::numbers {
template <class T> concept Number16 = std::same_as<T, __half> || std::same_as<T, __nv_bfloat16>;
template <class T> concept Pair16 = std::same_as<T, __half2> || std::same_as<T, __nv_bfloat162>;

template <Number16 T> PATCHBAY_GPU_INLINE T of_bits(unsigned short bits) { T number; number.__x = bits; return number; }
template <Number16 T> PATCHBAY_GPU_INLINE float wide(T value) { return T::Codec::decode(value.__x); }
}  // namespace patchbay::gpu::numbers

// Conversions.
PATCHBAY_GPU_INLINE float __half2float(__half value) { return patchbay::gpu::numbers::wide(value); }
PATCHBAY_GPU_INLINE __half __float2half(float value) { return __half(value); }
PATCHBAY_GPU_INLINE __half __float2half_rn(float value) { return __half(value); }
PATCHBAY_GPU_INLINE __half __double2half(double value) { return __half(value); }
PATCHBAY_GPU_INLINE __half __int2half_rn(int value) { return __half(value); }
PATCHBAY_GPU_INLINE int __half2int_rn(__half value) { return static_cast<int>(std::nearbyintf(__half2float(value))); }
PATCHBAY_GPU_INLINE int __half2int_rz(__half value) { return static_cast<int>(__half2float(value)); }
PATCHBAY_GPU_INLINE unsigned short __half_as_ushort(__half value) { return value.__x; }
PATCHBAY_GPU_INLINE short __half_as_short(__half value) { return static_cast<short>(value.__x); }
PATCHBAY_GPU_INLINE __half __ushort_as_half(unsigned short bits) { return patchbay::gpu::numbers::of_bits<__half>(bits); }
PATCHBAY_GPU_INLINE __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }
PATCHBAY_GPU_INLINE float __bfloat162float(__nv_bfloat16 value) { return patchbay::gpu::numbers::wide(value); }
PATCHBAY_GPU_INLINE __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
PATCHBAY_GPU_INLINE __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
PATCHBAY_GPU_INLINE __nv_bfloat16 __double2bfloat16(double value) { return __nv_bfloat16(value); }
PATCHBAY_GPU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
PATCHBAY_GPU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return patchbay::gpu::numbers::of_bits<__nv_bfloat16>(bits);
}

// Arithmetic. One operation in float, rounded once, is exact: float has more than twice the digits.
#define PATCHBAY_GPU_OPERATOR(op, name)                                                              \
  template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T operator op(const T& a, const T& b) { \
    return T(patchbay::gpu::numbers::wide(a) op patchbay::gpu::numbers::wide(b));                    \
  }                                                                                                  \
  template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T name(T a, T b) { return a op b; } \
  template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V operator op(const V& a, const V& b) { \
    return V(a.x op b.x, a.y op b.y);                                                                \
  }
PATCHBAY_GPU_OPERATOR(+, __hadd)
PATCHBAY_GPU_OPERATOR(-, __hsub)
PATCHBAY_GPU_OPERATOR(*, __hmul)
PATCHBAY_GPU_OPERATOR(/, __hdiv)
#undef PATCHBAY_GPU_OPERATOR
#define PATCHBAY_GPU_COMPARISON(op, name)                                                            \
  template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE bool operator op(const T& a, const T& b) { \
    return patchbay::gpu::numbers::wide(a) op patchbay::gpu::numbers::wide(b);                       \
  }                                                                                                  \
  template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE bool name(T a, T b) { return a op b; }
PATCHBAY_GPU_COMPARISON(==, __heq)
PATCHBAY_GPU_COMPARISON(!=, __hneu)
PATCHBAY_GPU_COMPARISON(<, __hlt)
PATCHBAY_GPU_COMPARISON(<=, __hle)
PATCHBAY_GPU_COMPARISON(>, __hgt)
PATCHBAY_GPU_COMPARISON(>=, __hge)
#undef PATCHBAY_GPU_COMPARISON
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE bool __hne(T a, T b) { return a < b || a > b; }
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE bool __hisnan(T a) { return a != a; }
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T operator-(const T& a) {
  return patchbay::gpu::numbers::of_bits<T>(static_cast<unsigned short>(a.__x ^ 0x8000u));
}
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T __hneg(T a) { return -a; }
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T __habs(T a) {
  return patchbay::gpu::numbers::of_bits<T>(static_cast<unsigned short>(a.__x & 0x7FFFu));
}
/// a * b + c, rounded once.
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T __hfma(T a, T b, T c) {
  using namespace patchbay::gpu::numbers;
  return T(odd_sum(static_cast<double>(wide(a)) * static_cast<double>(wide(b)), static_cast<double>(wide(c))));
}
/// The larger one; a NaN loses against a number.
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T __hmax(T a, T b) {
  if (__hisnan(a) && __hisnan(b)) return patchbay::gpu::numbers::of_bits<T>(T::Codec::kNaN);
  if (__hisnan(a) || __hisnan(b)) return __hisnan(a) ? b : a;
  return a == b ? (a.__x & 0x8000u ? b : a) : a > b ? a : b;  // +0 is the larger zero
}
template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T __hmin(T a, T b) {
  if (__hisnan(a) && __hisnan(b)) return patchbay::gpu::numbers::of_bits<T>(T::Codec::kNaN);
  if (__hisnan(a) || __hisnan(b)) return __hisnan(a) ? b : a;
  return a == b ? (a.__x & 0x8000u ? a : b) : a < b ? a : b;
}
// Functions of one number: the hardware's approximations may differ in the last bit.
#define PATCHBAY_GPU_FUNCTION(name, function)                                                         \
  template <patchbay::gpu::numbers::Number16 T> PATCHBAY_GPU_INLINE T name(T a) { return T(function(patchbay::gpu::numbers::wide(a))); }
PATCHBAY_GPU_FUNCTION(hexp, std::exp)
PATCHBAY_GPU_FUNCTION(hexp2, std::exp2)
PATCHBAY_GPU_FUNCTION(hlog, std::log)
PATCHBAY_GPU_FUNCTION(hsqrt, std::sqrt)
PATCHBAY_GPU_FUNCTION(hrsqrt, 1.0f / std::sqrt)
PATCHBAY_GPU_FUNCTION(hrcp, 1.0f /)
PATCHBAY_GPU_FUNCTION(hceil, std::ceil)
PATCHBAY_GPU_FUNCTION(hfloor, std::floor)
PATCHBAY_GPU_FUNCTION(hrint, std::nearbyint)
#undef PATCHBAY_GPU_FUNCTION

#define PATCHBAY_GPU_ASSIGNMENT(Name)                                                                 \
  PATCHBAY_GPU_INLINE Name& Name::operator+=(const Name& other) { return *this = *this + other; }     \
  PATCHBAY_GPU_INLINE Name& Name::operator-=(const Name& other) { return *this = *this - other; }     \
  PATCHBAY_GPU_INLINE Name& Name::operator*=(const Name& other) { return *this = *this * other; }     \
  PATCHBAY_GPU_INLINE Name& Name::operator/=(const Name& other) { return *this = *this / other; }
PATCHBAY_GPU_ASSIGNMENT(__half)
PATCHBAY_GPU_ASSIGNMENT(__nv_bfloat16)
#undef PATCHBAY_GPU_ASSIGNMENT
