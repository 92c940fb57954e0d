// Rows rounded to 8 bits: what every backend's rounding equals, and the forms of an input that products share.
#include "patchbay/rounded_inputs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>

#include "patchbay/fp8.h"

namespace patchbay {
namespace {

/// The bits of the largest |x|; NaN is above infinity.
std::int32_t largest_bits(const float* x, std::int64_t n) {
  std::int32_t most = 0;
  for (std::int64_t c = 0; c < n; ++c) most = std::max(most, std::bit_cast<std::int32_t>(x[c]) & 0x7FFFFFFF);
  return most;
}

struct RowScale { float scale, inverse; };  // inverse 0: all codes are 0
/// Of a row whose largest number is `largest`; `common`: that of all rows.
RowScale row_scale(float largest, float common, const RowRounding& how) {
  if (!std::isfinite(largest)) return {largest, 0.0f};
  if (how.scale == RowRounding::Scale::given) return {how.given, 1.0f / how.given};
  const float reach = how.scale == RowRounding::Scale::tensor ? common : largest, inverse = how.largest_code() / reach;
  return std::isfinite(inverse) ? RowScale{reach / how.largest_code(), inverse} : RowScale{0.0f, 0.0f};
}

/// To nearest, ties to even: a float of 1.5 * 2^23 and more has no fraction, and its lowest bits are the code.
void round_to_int8(const float* x, std::int64_t n, float inverse, std::int8_t* codes) {
  constexpr float kWhole = 12582912.0f;
  for (std::int64_t c = 0; c < n; ++c) {
    const float clamped = std::min(std::max(x[c] * inverse, -127.0f), 127.0f);
    codes[c] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(clamped + kWhole) & 0xFF);
  }
}

const Fp8Format& fp8_of(DType code) { return code == DType::f8_e4m3 ? kE4M3 : kE5M2; }

/// The definition, in fp32.
void quantize_on_host(Device& device, TensorRef x, const RowRounding& how, const RoundedRows& out) {
  const auto in = x.as<const float, 2>();
  const auto scales = out.scales.as<float, 1>();
  const std::int64_t cols = in.shape[1];
  const auto over_rows = [&](auto body) {
    constexpr std::int64_t kGrain = 16384;  // numbers: less is done before another thread wakes up
    device.parallel_for(in.shape[0], std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(cols, 1)), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) body(t);
    });
  };
  over_rows([&](std::int64_t t) { scales[t] = std::bit_cast<float>(largest_bits(&in(t, 0), cols)); });
  float common = 0;
  for (std::int64_t t = 0; t < in.shape[0]; ++t) common = std::isfinite(scales[t]) ? std::max(common, scales[t]) : common;
  over_rows([&](std::int64_t t) {
    const RowScale scale = row_scale(scales[t], common, how);
    auto* codes = static_cast<std::uint8_t*>(out.codes.data) + t * out.codes.strides[0];
    scales[t] = scale.scale;
    if (scale.inverse == 0.0f) return static_cast<void>(std::fill_n(codes, cols, std::uint8_t{0}));
    if (how.code == DType::i8) return round_to_int8(&in(t, 0), cols, scale.inverse, reinterpret_cast<std::int8_t*>(codes));
    for (std::int64_t c = 0; c < cols; ++c) codes[c] = encode_fp8(in(t, c) * scale.inverse, fp8_of(how.code));
  });
}

/// Tells one rounding from another.
struct FormName {
  char text[32];
  FormName(const RowRounding& how, const char* what) {
    std::snprintf(text, sizeof text, "%s %d %d %08x", what, static_cast<int>(how.code), static_cast<int>(how.scale),
                  std::bit_cast<std::uint32_t>(how.given));
  }
};

std::int64_t aligned(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

RoundingOps& rounding_ops(Ops& ops) {
  if (auto* rounding = dynamic_cast<RoundingOps*>(&ops)) return *rounding;
  throw Error("backend " + std::string(ops.kernel()), "cannot round rows to 8 bits", "backends cpu, cuda, simt");
}

}  // namespace

RoundsInputs::~RoundsInputs() = default;
RoundingOps::~RoundingOps() = default;
Int8Products::~Int8Products() = default;

Int8Products& int8_products(Ops& ops) {
  if (auto* products = dynamic_cast<Int8Products*>(&ops.host())) return *products;
  throw Error("backend " + std::string(ops.kernel()), "has no products of int8 by int8", "kernel: decode");
}

void quantize_rows(Ops& ops, TensorRef x, const RowRounding& how, const RoundedRows& out) {
  if (ops.device().is_host()) return quantize_on_host(ops.device(), x, how, out);
  rounding_ops(ops).quantize_rows(x, how, out);
}

RoundedRows rounded(Activation& x, Ops& ops, const RowRounding& how, const std::function<void(const RoundedRows&)>& make) {
  const bool host = ops.device().is_host();
  const std::int64_t tokens = x.rows(), cols = x.cols(), stride = host ? aligned(cols, Q8Rows::kBlock) : cols;
  const std::int64_t scales_at = aligned(tokens * stride, 64);
  RoundedRows out;
  const auto place = [&](std::byte* memory) {
    out.codes.data = memory;
    out.codes.dtype = how.code;
    out.codes.device = out.scales.device = host ? 0 : x.values().device;
    out.codes = out.codes.reshaped({tokens, cols});
    out.codes.strides[0] = stride;
    out.scales.data = memory + scales_at;
    out.scales.dtype = DType::f32;
    out.scales = out.scales.reshaped({tokens});
  };
  std::byte* const memory = x.form(FormName(how, "codes").text, scales_at + tokens * bytes_of(DType::f32), [&](TensorRef input, std::byte* to) {
    place(to);
    if (make) return make(out);
    quantize_rows(ops, input, how, out);
    for (std::int64_t t = 0; stride > cols && t < tokens; ++t) std::fill_n(to + t * stride + cols, stride - cols, std::byte{0});
  });
  place(memory);
  return out;
}

TensorRef rounded_values(Activation& x, Ops& ops, const RowRounding& how) {
  const RoundedRows rows = rounded(x, ops, how);
  const std::int64_t tokens = x.rows(), cols = x.cols();
  std::byte* const values = x.form(FormName(how, "values").text, tokens * cols * bytes_of(DType::f32), [&](TensorRef, std::byte* to) {
    std::array<float, 256> numbers;
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<std::uint8_t>(code);
      numbers[byte] = how.code == DType::i8 ? static_cast<float>(static_cast<std::int8_t>(byte)) : decode_fp8(byte, fp8_of(how.code));
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto* codes = static_cast<const std::uint8_t*>(rows.codes.data) + t * rows.codes.strides[0];
      const float scale = rows.scales.as<const float, 1>()[t];
      for (std::int64_t c = 0; c < cols; ++c) reinterpret_cast<float*>(to)[t * cols + c] = scale * numbers[codes[c]];
    }
  });
  return View<const float, 2>(reinterpret_cast<const float*>(values), {tokens, cols});
}

}  // namespace patchbay
