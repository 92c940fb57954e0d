/// @file quantize_row.cuh
/// How a row becomes codes of 8 bits and a scale, alone and behind a norm: the same bits in both, and those of the host
/// (core/src/rounded_inputs.cpp).
#pragma once
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rounding_ops.h"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {

/// What a row is multiplied by to give its codes; 0: all codes are 0. A row that is not finite has such a scale, so that it shows.
struct RowScale {
  float scale, inverse;
};
/// Of a row whose largest number is `largest`; common: that of all rows, where they share a scale.
__device__ inline RowScale row_scale(float largest, float common, const RowRounding& how) {
  if (!(largest <= 3.4e38f)) return {largest, 0.0f};
  if (how.scale == RowRounding::Scale::given) return {how.given, 1.0f / how.given};
  const float most = how.code == DType::i8 ? 127.0f : how.code == DType::f8_e4m3 ? 448.0f : 57344.0f;
  const float reach = how.scale == RowRounding::Scale::tensor ? common : largest, inverse = most / reach;
  return inverse <= 3.4e38f ? RowScale{reach / most, inverse} : RowScale{0.0f, 0.0f};
}

/// To nearest, ties to even; what is too large becomes the largest.
template <class Code>
__device__ inline Code code_of(float value, float inverse) {
  if (inverse == 0.0f) return Code(0.0f);
  if constexpr (std::is_same_v<Code, std::int8_t>)
    return static_cast<std::int8_t>(rintf(fminf(fmaxf(value * inverse, -127.0f), 127.0f)));
  else
    return gpu::from_float<Code>(value * inverse);
}

/// max that keeps a NaN, so that a row with one gets a scale that is one.
__device__ inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float block_max_or_nan(float largest) {
  const bool poisoned = __syncthreads_or(largest != largest);
  const float result = gpu::block_max(poisoned ? 0.0f : largest);
  return poisoned ? NAN : result;
}

/// The codes of kWidth neighbours; in one store where rows of codes are so aligned.
template <class Code, int kWidth>
__device__ inline void store_codes(Code* to, const gpu::Pack<Code, kWidth>& codes, bool aligned) {
  if (aligned) return gpu::store_pack(to, codes);
  for (int i = 0; i < kWidth; ++i) to[i] = codes.at[i];
}
/// Whether they are, for packs of `width`.
template <class Code>
bool codes_aligned(const Rows<Code>& codes, int width) {
  return reinterpret_cast<std::uintptr_t>(codes.data) % width == 0 && codes.stride % width == 0;
}

/// Calls body(std::type_identity<Code>()) with the type of the codes.
template <class Body>
void with_code(DType code, const char* operation, Body body) {
  if (code == DType::i8) return body(std::type_identity<std::int8_t>());
  if (code == DType::f8_e4m3) return body(std::type_identity<__nv_fp8_e4m3>());
  if (code == DType::f8_e5m2) return body(std::type_identity<__nv_fp8_e5m2>());
  throw Error(std::string("cuda ") + operation, "codes of type " + std::string(name_of(code)), "i8, f8_e4m3, f8_e5m2");
}
/// Rows of codes of that type.
template <class Code>
Rows<Code> codes_of(const TensorRef& codes, const char* operation, std::int64_t rows, std::int64_t cols) {
  TensorRef bytes = codes;  // views know no 8-bit floats
  bytes.dtype = DType::u8;
  const auto found = rows_of<std::uint8_t>(bytes, operation, rows, cols);
  return {reinterpret_cast<Code*>(found.data), found.stride};
}

}  // namespace patchbay::PATCHBAY_GPU
