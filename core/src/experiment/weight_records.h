/// @file weight_records.h
/// What a record says of a run's weights: the format of every tensor, and what quantising had to say.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "session.h"
#include "tensor_path.h"

namespace patchbay {

using Json = nlohmann::ordered_json;

/// {"blk.*.attn_v": [{"format": "q4_k", "bits_per_weight": 4.5, "layers": "4-26"}, {"format": "q6_k", ...}], "token_embd": [{...}]}: by name; without
/// "layers" where all have the same or there are none; "instead_of" where a mix's blocks divide no row.
PATCHBAY_API Json formats_by_name(std::span<const TensorPath> tensors);
/// {"calibration": {"source", "sha256", "samples", "tokens"}, "notes": {tensor: line}, "warnings": [line]}, of each what there is.
PATCHBAY_API Json quantization_json(const QuantizationReport& report);

}  // namespace patchbay
