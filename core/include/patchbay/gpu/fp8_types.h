/// @file fp8_types.h
/// CUDA's 8-bit floats (__nv_fp8_e4m3, __nv_fp8_e5m2) for builds by g++; conversions saturate and round to nearest even, as CUDA's do.
#pragma once
#include "patchbay/fp8.h"
#include "patchbay/gpu/half_pairs.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };

namespace patchbay::gpu::numbers {

using patchbay::decode_fp8, patchbay::encode_fp8, patchbay::Fp8Format, patchbay::kE4M3, patchbay::kE5M2;
PATCHBAY_GPU_INLINE const Fp8Format& fp8_format(__nv_fp8_interpretation_t kind) { return kind == __NV_E4M3 ? kE4M3 : kE5M2; }

}  // namespace patchbay::gpu::numbers

PATCHBAY_GPU_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  return patchbay::gpu::numbers::encode_fp8(value, patchbay::gpu::numbers::fp8_format(kind), saturation == __NV_SATFINITE);
}
PATCHBAY_GPU_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(value.x, saturation, kind) |
                                           __nv_cvt_float_to_fp8(value.y, saturation, kind) << 8);
}
PATCHBAY_GPU_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw value, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(__half2float(__half(value)), saturation, kind);
}
PATCHBAY_GPU_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
  return __half(patchbay::gpu::numbers::decode_fp8(code, patchbay::gpu::numbers::fp8_format(kind)));
}
struct alignas(4) __half2_raw { unsigned short x, y; };
PATCHBAY_GPU_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t codes, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(codes & 0xFF), kind).x,
          __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(codes >> 8), kind).x};
}

#define PATCHBAY_GPU_FP8(Name, kFormat)                                                                                  \
  struct Name {                                                                                                          \
    __nv_fp8_storage_t __x;                                                                                              \
    Name() = default;                                                                                                    \
    PATCHBAY_GPU_INLINE explicit Name(float value) : __x(patchbay::gpu::numbers::encode_fp8(value, patchbay::gpu::numbers::kFormat, true)) {} \
    PATCHBAY_GPU_INLINE explicit Name(double value) : Name(patchbay::gpu::numbers::odd_float(value)) {}                  \
    PATCHBAY_GPU_INLINE explicit Name(__half value) : Name(__half2float(value)) {}                                       \
    PATCHBAY_GPU_INLINE explicit Name(__nv_bfloat16 value) : Name(__bfloat162float(value)) {}                            \
    PATCHBAY_GPU_INLINE explicit Name(int value) : Name(static_cast<double>(value)) {}                                   \
    PATCHBAY_GPU_INLINE explicit operator float() const { return patchbay::gpu::numbers::decode_fp8(__x, patchbay::gpu::numbers::kFormat); } \
    PATCHBAY_GPU_INLINE explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }      \
    PATCHBAY_GPU_INLINE explicit operator __half() const { return __half(static_cast<float>(*this)); }                   \
    PATCHBAY_GPU_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16(static_cast<float>(*this)); }     \
  }
PATCHBAY_GPU_FP8(__nv_fp8_e4m3, kE4M3);
PATCHBAY_GPU_FP8(__nv_fp8_e5m2, kE5M2);
#undef PATCHBAY_GPU_FP8
#define PATCHBAY_GPU_FP8_VECTORS(Name, Pair, Four)                                                                       \
  struct alignas(2) Pair {                                                                                               \
    __nv_fp8x2_storage_t __x;                                                                                            \
    Pair() = default;                                                                                                    \
    PATCHBAY_GPU_INLINE explicit Pair(float2 v) : __x(static_cast<__nv_fp8x2_storage_t>(Name(v.x).__x | Name(v.y).__x << 8)) {} \
    PATCHBAY_GPU_INLINE explicit Pair(__half2 v) : Pair(__half22float2(v)) {}                                            \
    PATCHBAY_GPU_INLINE float at(int i) const { Name n; n.__x = static_cast<unsigned char>(__x >> (8 * i)); return static_cast<float>(n); } \
    PATCHBAY_GPU_INLINE explicit operator float2() const { return {at(0), at(1)}; }                                      \
    PATCHBAY_GPU_INLINE explicit operator __half2() const { return {__half(at(0)), __half(at(1))}; }                     \
  };                                                                                                                     \
  struct alignas(4) Four {                                                                                               \
    __nv_fp8x4_storage_t __x;                                                                                            \
    Four() = default;                                                                                                    \
    PATCHBAY_GPU_INLINE explicit Four(float4 v)                                                                          \
        : __x(static_cast<unsigned>(Name(v.x).__x | Name(v.y).__x << 8 | Name(v.z).__x << 16) | static_cast<unsigned>(Name(v.w).__x) << 24) {} \
    PATCHBAY_GPU_INLINE float at(int i) const { Name n; n.__x = static_cast<unsigned char>(__x >> (8 * i)); return static_cast<float>(n); } \
    PATCHBAY_GPU_INLINE explicit operator float4() const { return {at(0), at(1), at(2), at(3)}; }                        \
  }
PATCHBAY_GPU_FP8_VECTORS(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3);
PATCHBAY_GPU_FP8_VECTORS(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2);
#undef PATCHBAY_GPU_FP8_VECTORS
