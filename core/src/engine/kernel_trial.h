/// @file kernel_trial.h
/// Whether the kernels that a run takes on a GPU can take the model's shapes, found by trying them before a weight is read.
#pragma once
#include "engine/stage_set.h"
#include "engine/weights.h"

namespace patchbay {

/// Attention over two new tokens and over one; and, where the whole model is on the device, a product with a few rows of each format and width,
/// of as many tokens as each phase has at least. All numbers are zeros. A set of stages that was not configured yet, and is not needed after.
/// @throws Error what the kernel says of the shape, with the name of the tensor or the attention.
PATCHBAY_API void try_kernels(const ModelFile& file, const ModelSpec& spec, const WeightPlan& plan, const RunConfig& config, StageSet& stages);

}  // namespace patchbay
