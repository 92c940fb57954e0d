/// @file half_pairs.h
/// CUDA's functions on pairs (__half2, __nv_bfloat162), for builds by g++.
#pragma once
#include "patchbay/gpu/half_types.h"
#include "patchbay/gpu/vector_types.h"

PATCHBAY_GPU_INLINE __half2 __halves2half2(__half low, __half high) { return {low, high}; }
PATCHBAY_GPU_INLINE __half2 make_half2(__half low, __half high) { return {low, high}; }
PATCHBAY_GPU_INLINE __half2 __half2half2(__half both) { return {both, both}; }
PATCHBAY_GPU_INLINE __half2 __float2half2_rn(float both) { return {__half(both), __half(both)}; }
PATCHBAY_GPU_INLINE __half2 __floats2half2_rn(float low, float high) { return {__half(low), __half(high)}; }
PATCHBAY_GPU_INLINE __half2 __float22half2_rn(float2 both) { return {__half(both.x), __half(both.y)}; }
PATCHBAY_GPU_INLINE float2 __half22float2(__half2 pair) { return make_float2(__half2float(pair.x), __half2float(pair.y)); }
PATCHBAY_GPU_INLINE __half __low2half(__half2 pair) { return pair.x; }
PATCHBAY_GPU_INLINE __half __high2half(__half2 pair) { return pair.y; }
PATCHBAY_GPU_INLINE float __low2float(__half2 pair) { return __half2float(pair.x); }
PATCHBAY_GPU_INLINE float __high2float(__half2 pair) { return __half2float(pair.y); }

PATCHBAY_GPU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
PATCHBAY_GPU_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
PATCHBAY_GPU_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 both) { return {both, both}; }
PATCHBAY_GPU_INLINE __nv_bfloat162 __float2bfloat162_rn(float both) { return {__nv_bfloat16(both), __nv_bfloat16(both)}; }
PATCHBAY_GPU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {__nv_bfloat16(low), __nv_bfloat16(high)}; }
PATCHBAY_GPU_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 both) { return {__nv_bfloat16(both.x), __nv_bfloat16(both.y)}; }
PATCHBAY_GPU_INLINE float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return make_float2(__bfloat162float(pair.x), __bfloat162float(pair.y));
}
PATCHBAY_GPU_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
PATCHBAY_GPU_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
PATCHBAY_GPU_INLINE float __low2float(__nv_bfloat162 pair) { return __bfloat162float(pair.x); }
PATCHBAY_GPU_INLINE float __high2float(__nv_bfloat162 pair) { return __bfloat162float(pair.y); }

template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hadd2(V a, V b) { return a + b; }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hsub2(V a, V b) { return a - b; }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hmul2(V a, V b) { return a * b; }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __h2div(V a, V b) { return a / b; }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hfma2(V a, V b, V c) {
  return V(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hmax2(V a, V b) { return V(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hmin2(V a, V b) { return V(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __hneg2(V a) { return V(-a.x, -a.y); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __habs2(V a) { return V(__habs(a.x), __habs(a.y)); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V h2exp(V a) { return V(hexp(a.x), hexp(a.y)); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __lows2half2(V a, V b) { return V(a.x, b.x); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __highs2half2(V a, V b) { return V(a.y, b.y); }
template <patchbay::gpu::numbers::Pair16 V> PATCHBAY_GPU_INLINE V __lowhigh2highlow(V a) { return V(a.y, a.x); }
