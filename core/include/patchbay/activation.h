/// @file activation.h
/// The input of a matrix product, and its 8-bit form, made once and shared by every product that reads it (q, k and v; gate and up).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/backend.h"

namespace patchbay {

/// In mode q8 (on the host alone) *every* product of the run sees the rounded values, whatever its weight format: integer kernels multiply the
/// codes, the others multiply values(). So quality and speed always come from the same arithmetic.
class PATCHBAY_API Activation {
 public:
  Activation(ActivationMode mode, Ops& ops) : mode_(mode), ops_(ops) {}
  /// Takes x(T,C) as the present input, fp32 on the host, on a GPU its activation type; the memory must stay as it is until the
  /// next reset.
  void reset(TensorRef x);
  ActivationMode mode() const { return mode_; }
  std::int64_t rows() const { return input_.shape[0]; }
  std::int64_t cols() const { return input_.shape[1]; }
  /// The input as products see it, (T,C): as given, or decoded from its 8-bit form.
  TensorRef values();
  /// The 8-bit form. @throws Error in mode fp32.
  const Q8Rows& q8();
  /// Another form of the input that several products may share (a GPU's rows of int8 or fp8 and their scales): `make(x, out)` fills
  /// `bytes` bytes of the device at the first call after a reset. `name` tells forms apart.
  std::byte* form(std::string_view name, std::int64_t bytes, FunctionRef<void(TensorRef x, std::byte* out)> make);

 private:
  struct Form { std::string name; Buffer memory; bool made = false; };
  ActivationMode mode_;
  Ops& ops_;
  TensorRef input_;
  bool quantized_ = false, rounded_ = false;
  Q8Rows q8_;
  std::vector<std::int8_t> codes_;
  std::vector<float> scales_, values_;
  std::vector<std::int32_t> sums_;
  std::vector<Form> forms_;
};

}  // namespace patchbay
