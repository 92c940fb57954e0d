/// @file eight_bits.h
/// Weights of 8-bit floats or integers beside their scales, as compressed-tensors and FP8 checkpoints keep them: weight (R, C) in F8_E4M3 or I8;
/// weight_scale of the tensor (1), of rows (R, 1) or of groups (R, C / g); input_scale (1) where inputs are rounded by one from calibration.
/// weight_scale_inv of square blocks (DeepSeek's) has its name from training: it is multiplied as well.
#pragma once
#include <memory>

#include "layouts/module_tensors.h"
#include "layouts/quantization_config.h"

namespace patchbay {

/// @throws Error for tensors that do not go together.
std::shared_ptr<const FoldedModule> read_eight_bits(ModuleTensors tensors, const QuantizationConfig& config);

}  // namespace patchbay
