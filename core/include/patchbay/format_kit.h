/// @file format_kit.h
/// What authors of weight formats share: the table of kernels, and the refusal of numbers that have no code.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "patchbay/gpu_linear.h"
#include "patchbay/half.h"
#include "patchbay/params.h"
#include "patchbay/weight_format.h"

namespace patchbay {

inline constexpr KernelInfo kDecodeKernel{"decode", "cpu", "both",
                                          "decodes blocks of rows to floats and multiplies those: works for every format and shape"};
/// How a packed weight can be multiplied, on each backend worst to best.
inline constexpr KernelInfo kLinearKernels[] = {
    kDecodeKernel,
    {"integer", "cpu", "both",
     "multiplies 8-bit inputs and codes as integers inside blocks of 32 columns: a quarter of the bytes, no decoding "
     "(needs activations: q8 and groups that are a multiple of 32 columns)"},
    {"auto", "cpu", "both", "integer where the run's activations are q8 and the groups allow it, else decode; the record says which"},
    kGpuPackedNaive, kGpuPackedTensorCore, kGpuPackedGemv,
};
/// The same without integer products.
inline constexpr KernelInfo kDecodeKernels[] = {kDecodeKernel, kGpuPackedNaive, kGpuPackedTensorCore, kGpuPackedGemv};

/// On the host one choice serves both phases: were prefill and decode summed in different orders, a result would depend on how a batch
/// is put together. @throws Error when they differ.
inline void require_one_kernel(const KernelChoice& choice, std::span<const KernelInfo> kernels, const char* format) {
  const auto on_host = [&](const std::string& name) {
    return std::any_of(kernels.begin(), kernels.end(), [&](const KernelInfo& k) { return k.name == name && k.backend == "cpu"; });
  };
  if (choice.prefill != choice.decode && (on_host(choice.prefill) || on_host(choice.decode)))
    throw Error(std::string(format) + ": kernel", "prefill and decode must use the same kernel", "one name");
}

/// The kernel for the host. @throws Error when one of a GPU was named.
inline const KernelInfo& host_kernel(const KernelChoice& choice, std::span<const KernelInfo> kernels, const std::string& label) {
  pick_kernel(choice.decode, kernels, label, "decode");
  return pick_kernel(choice.prefill, kernels, label, "prefill");
}

/// The parameter `kernel` of a format that has an integer kernel.
struct LinearKernelChoice {
  KernelChoice choice;

  void visit(Fields& f) {
    f.kernel("kernel", choice, kLinearKernels, {"how the packed weight is multiplied"});
  }
  void check(const char* format) const { require_one_kernel(choice, kLinearKernels, format); }
  /// Whether the integer kernel is to run. `fits`: blocks of 32 columns have one scale. @throws Error when it is asked for but cannot.
  bool integer(ActivationMode mode, bool fits, const std::string& label) const {
    if (host_kernel(choice, kLinearKernels, label).name == "decode") return false;
    const bool possible = mode == ActivationMode::q8 && fits;
    if (choice.prefill == "integer" && !possible) {
      throw Error(label + ": kernel",
                  fits ? "integer products need 8-bit inputs, and this run's activations are fp32"
                       : "integer products need one scale per 32 columns, and the groups are not a multiple of 32",
                  "decode", fits ? "set activations to q8, or kernel to decode" : "set kernel to decode, or another group_size");
    }
    return possible;
  }
};

/// @throws Error for a weight that is NaN, infinite or past `largest`: it has no code, and would spoil its neighbours' scale.
inline void require_finite(View<const float, 2> tile, const char* format,
                           float largest = std::numeric_limits<float>::max()) {
  for (std::int64_t r = 0; r < tile.shape[0]; ++r)
    for (std::int64_t c = 0; c < tile.shape[1]; ++c)
      if (!(std::fabs(tile(r, c)) <= largest))
        throw Error(format, "row " + std::to_string(r) + " holds a weight of " + std::to_string(tile(r, c)) + ", which has no code",
                    "finite numbers up to " + std::to_string(largest),
                    "repair the model file, or leave this tensor as stored (quantizer none)");
}

/// `value` as it will be stored. @throws Error when it is past the largest fp16 number.
inline float rounded_to_half(float value, const char* format) {
  const float stored = to_float(to_half(value));
  if (!std::isfinite(stored))
    throw Error(format, "a scale of " + std::to_string(value) + " does not fit its 16-bit storage", "at most 65504",
                "leave this tensor as stored (quantizer none), or use fp32");
  return stored;
}

/// @throws Error unless both extents are positive.
inline void require_shape(std::int64_t rows, std::int64_t cols, const char* format) {
  if (rows <= 0 || cols <= 0)
    throw Error(format, "a weight of " + std::to_string(rows) + " x " + std::to_string(cols), "at least one row and one column");
}

}  // namespace patchbay
