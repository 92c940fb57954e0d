/// @file scaled_matmul.h
/// What launchers of products of 8-bit numbers take: codes and scales on both sides.
#pragma once
#include "patchbay/gpu/matmul.h"

namespace patchbay {

/// product.x is (T,C) and product.parts[0] (R,C) codes of one 8-bit type; product.x_type is not read.
struct ScaledMatmulArgs {
  MatmulArgs product;
  const float* token_scales = nullptr;  ///< (T)
  const float* row_scales = nullptr;    ///< (R)
};
/// x(T,C), f16 or bf16, becomes codes(T,C) and scales(T).
struct QuantizeTokensArgs {
  const void* x = nullptr;
  DType x_type = DType::f16;
  void* codes = nullptr;
  float* scales = nullptr;
  int tokens = 0, cols = 0;
};

}  // namespace patchbay
