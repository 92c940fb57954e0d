/// @file finite_weights.h
/// Looks for weights that are no numbers before any time is spent on them.
#pragma once
#include <memory>

#include "engine/weights.h"

namespace patchbay {

/// Decodes every tensor that the model reads. @throws Error naming the first that holds a NaN or an infinity, and where.
PATCHBAY_API void require_finite_weights(const std::shared_ptr<const ModelFile>& file, const WeightPlan& plan, Device& device);

}  // namespace patchbay
