/// @file gpu_kernels.h
/// Which kernel runs each dense operation: the parameters `kernels.NAME` of the backends cuda and simt.
#pragma once
#include <array>
#include <span>

#include "cuda_ops.h"
#include "patchbay/params.h"

namespace patchbay {

/// In the order of the table in gpu_kernels.cpp.
enum class GpuOperation { rms_norm, layer_norm, rope, write_kv, gated, add, scale, soft_cap, take_rows, add_rows, softmax, sample, quantize_rows, add_rms_norm, rope_write_kv,
                          add_rms_norm_quantize };

class GpuKernels {
 public:
  void visit(Fields& f);
  /// @throws Error for a kernel per phase, or a fused kernel beside one of the kernels that it would stand for.
  void check() const;
  Version version(GpuOperation operation) const;
  /// Of the last three.
  bool fused(GpuOperation operation) const;

 private:
  static constexpr std::size_t kCount = static_cast<std::size_t>(GpuOperation::add_rms_norm_quantize) + 1;
  const KernelChoice& choice(GpuOperation operation) const { return choices_[static_cast<std::size_t>(operation)]; }
  bool at_their_best(std::span<const GpuOperation> parts) const;
  std::array<KernelChoice, kCount> choices_;
};

}  // namespace patchbay
