/// @file matmul.h
/// What a launcher of the product y(T,R) = x(T,C) w(R,C)^T takes, whatever the weight's format.
#pragma once
#include "patchbay/tensor.h"

namespace patchbay {

/// The ways to compute it, worst to best. A format's table of kernels says which it has. take_rows is no product, but what else is
/// asked of a packed weight: y(T,C) = w[ids(T)].
enum class MatmulKernel : std::uint8_t { naive, tiled, vectorised, gemv, cublas, dequantised, tensor_core, take_rows };

/// Device pointers to dense, row-major arrays; each begins at a multiple of 16 bytes.
struct MatmulArgs {
  MatmulKernel kernel = MatmulKernel::naive;
  const void* x = nullptr;
  DType x_type = DType::f16;  ///< f16 or bf16
  const void* parts[3] = {};  ///< the weight's parts, in the order of the format's layout()
  void* y = nullptr;
  DType y_type = DType::f16;  ///< f16, bf16 or f32
  int tokens = 0, rows = 0, cols = 0;
  const std::int32_t* ids = nullptr;  ///< of take_rows alone, in place of x
};

}  // namespace patchbay
