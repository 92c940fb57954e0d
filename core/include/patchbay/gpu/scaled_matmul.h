/// @file scaled_matmul.h
/// What launchers of products of 8-bit numbers take: codes, and scales that do not vary along the columns.
#pragma once
#include "patchbay/gpu/matmul.h"

namespace patchbay {

/// product.parts: codes (R,C) of one 8-bit type, and f32 scales (R), or (1) for all rows.
struct ScaledMatmulArgs {
  MatmulArgs product;  ///< x: f16, bf16, or codes of the weights' type (x_type is not read then)
  const float* token_scales = nullptr;  ///< (T): of an x of codes, else null
  bool one_scale = false;  ///< for all rows
};

}  // namespace patchbay
