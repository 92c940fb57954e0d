/// @file rounded_inputs.h
/// Products of bytes: inputs that a format has rounded to 8 bits before it multiplies, whatever the run's `activations` are, and what backends
/// do with them. T tokens of a step, a weight is R x C.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "patchbay/activation.h"
#include "patchbay/gpu_linear.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// How rows become codes of 8 bits with one scale each: x ~ scale * code.
struct RowRounding {
  enum class Scale {
    token,   ///< each row its own, by its largest number
    tensor,  ///< one for all rows of the call: a row's codes then depend on what else is in the batch
    given,   ///< `given`; what is past the largest code becomes it
  };
  DType code = DType::i8;  ///< i8 (-127 .. 127), f8_e4m3 or f8_e5m2
  Scale scale = Scale::token;
  float given = 0;

  float largest_code() const { return code == DType::i8 ? 127.0f : code == DType::f8_e4m3 ? 448.0f : 57344.0f; }
  bool operator==(const RowRounding&) const = default;
};

/// Rows of codes, one scale each.
struct RoundedRows {
  TensorRef codes;   ///< (T,C)
  TensorRef scales;  ///< (T) f32
};

/// What rounds the inputs of its products: a LinearKernel, or the WeightFormat that makes such. Nothing: they are as the run's `activations`
/// say. A format's given scale is 0: it is known with a weight.
class PATCHBAY_API RoundsInputs {
 public:
  virtual ~RoundsInputs();
  virtual std::optional<RowRounding> input_rounding() const = 0;
};
/// Of a format or a kernel; nothing for one that is no RoundsInputs.
template <class T>
std::optional<RowRounding> input_rounding_of(const T* what) {
  const auto* rounds = dynamic_cast<const RoundsInputs*>(what);
  return rounds ? rounds->input_rounding() : std::nullopt;
}

/// What the Ops of a GPU also are.
class PATCHBAY_API RoundingOps {
 public:
  virtual ~RoundingOps();
  /// As the function of this name.
  virtual void quantize_rows(TensorRef x, const RowRounding& how, const RoundedRows& out) = 0;
  /// x += y, then quantize_rows of rms_norm(x). norm(T,C) may be written on the way, or stay as it is.
  virtual void add_rms_norm_quantize(TensorRef x, TensorRef y, TensorRef weight, float epsilon, const RowRounding& how, TensorRef norm,
                                     const RoundedRows& out) = 0;
};

/// What the HostProducts of a backend may also be.
class PATCHBAY_API Int8Products {
 public:
  virtual ~Int8Products();
  /// w[r][c] = scales[r] * codes[r][c], |code| <= 127, at most 65536 columns.
  virtual std::unique_ptr<AffineWeight> prepare_int8(View<const std::int8_t, 2> codes, View<const float, 1> scales) = 0;
  /// y[t][r] = sum * (x.scales[t] * w.scales[r]), the sum of x.codes times the weight's codes an exact integer. Rows of codes lie a multiple
  /// of 32 apart, zeros behind their columns.
  virtual void matmul_int8(const RoundedRows& x, const AffineWeight& w, TensorRef y) = 0;
};
/// @throws Error for a backend that has none.
PATCHBAY_API Int8Products& int8_products(Ops& ops);

/// codes(T,C) and scales(T) of x(T,C). A row's scale is max|x| / largest code, its codes x / scale, to nearest, ties to even. A row of zeros, or
/// too small to divide by, has scale and codes 0; one that is not finite the scale NaN or infinity and codes 0, so that it shows. The same
/// bits on every device.
PATCHBAY_API void quantize_rows(Ops& ops, TensorRef x, const RowRounding& how, const RoundedRows& out);

/// The input as it came, rounded: made once for all products that want the same. On the host rows of codes lie a multiple of 32 apart,
/// zeros between. With `make`, that fills them.
PATCHBAY_API RoundedRows rounded(Activation& x, Ops& ops, const RowRounding& how, const std::function<void(const RoundedRows&)>& make = {});
/// The numbers that those codes stand for, (T,C) f32; on the host alone.
PATCHBAY_API TensorRef rounded_values(Activation& x, Ops& ops, const RowRounding& how);

/// As decode_then_multiply, of rounded inputs; on the host alone.
PATCHBAY_API std::unique_ptr<LinearKernel> decode_then_multiply(const WeightFormat& format, const PackedWeight& w, Ops& ops, const RowRounding& how);
/// As gpu_linear, for kernels that take codes and their scales (null without `how`, when they take activations).
using RoundedLaunch = std::function<void(const MatmulArgs&, const float* token_scales, gpu::Stream)>;
PATCHBAY_API std::unique_ptr<LinearKernel> gpu_linear(std::string label, const PackedWeight& w, Ops& ops, std::span<const KernelInfo> kernels,
                                                      const KernelChoice& choice, RoundedLaunch launch, const std::optional<RowRounding>& how);

}  // namespace patchbay
