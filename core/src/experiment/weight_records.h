/// @file weight_records.h
/// What a record says of a run's weights: the format of every tensor, and what quantising had to say.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "session.h"

namespace patchbay {

using Json = nlohmann::ordered_json;

/// {"blk.*.attn_v": {"q4_k": "4-26", "q6_k": "0-3, 27"}, "token_embd": "q6_k"}: by name, where all layers have one format that alone.
PATCHBAY_API Json formats_by_name(std::span<const TensorPath> tensors);
/// {"calibration": {"source", "sha256", "samples", "tokens"}, "notes": {tensor: line}, "warnings": [line]}, of each what there is.
PATCHBAY_API Json quantization_json(const QuantizationReport& report);

}  // namespace patchbay
