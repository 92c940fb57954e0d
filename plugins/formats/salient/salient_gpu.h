// What salient's launcher on a GPU takes.
#pragma once
#include <cstdint>

#include "patchbay/gpu/host.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// y(T,R) += x(T,C)[:, columns(K)] differences(R,K)^T, all on the device.
struct KeptColumnsArgs {
  const void* x = nullptr;
  DType x_type = DType::f16;  ///< f16 or bf16
  const std::int32_t* columns = nullptr;
  const float* differences = nullptr;
  void* y = nullptr;
  DType y_type = DType::f16;  ///< f16, bf16 or f32
  int tokens = 0, rows = 0, cols = 0, kept = 0;
};

}  // namespace patchbay
