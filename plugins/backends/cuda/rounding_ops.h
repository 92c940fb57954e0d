/// @file rounding_ops.h
/// Launchers of what rounds rows to 8 bits: RoundingOps (rounded_inputs.h) with a stream.
#pragma once
#include "cuda_ops.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, quantize_rows, (Version, TensorRef x, const RowRounding& how, const RoundedRows& out, gpu::Stream))
/// add_rms_norm and quantize_rows in one launch, for scales that a row has of its own or that are given; `norm`, whose place alone
/// counts, stays as it is. The same bits.
PATCHBAY_GPU_LAUNCHER(void, add_rms_norm_quantize, (TensorRef x, TensorRef y, TensorRef weight, float epsilon, const RowRounding& how,
                                                    TensorRef norm, const RoundedRows& out, gpu::Stream))

}  // namespace patchbay
