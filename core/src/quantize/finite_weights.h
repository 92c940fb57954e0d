/// @file finite_weights.h
/// Looks for weights that are no numbers before any time is spent on them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/weights.h"

namespace patchbay {

/// Decodes every tensor that the model reads. @throws Error naming the first that holds a NaN or an infinity, and where.
PATCHBAY_API void require_finite_weights(const std::shared_ptr<const ModelFile>& file, const WeightPlan& plan, Device& device);

/// The same for a file in itself. What no model that runs here reads (masks, tensors of an unknown architecture) may hold infinities on purpose: a
/// warning for each such tensor. @throws Error for what a model reads.
PATCHBAY_API std::vector<std::string> check_finite(const std::shared_ptr<const ModelFile>& file, Device& device);

}  // namespace patchbay
