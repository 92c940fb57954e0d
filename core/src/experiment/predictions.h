/// @file predictions.h
/// Predicted metrics beside the measured ones: predicted_NAME, and how much of a predicted speed was reached: NAME_of_roofline.
#pragma once
#include <span>

#include "experiment/calibration.h"

namespace patchbay {

/// How one prompt was decoded.
struct DecodedPrompt {
  std::int64_t prompt_tokens = 0, output_tokens = 0, passes = 0, drafted = 0;
};

/// predicted_weights_bytes, predicted_kv_bytes_per_token: equal to the measured ones, or one of the two is wrong.
PATCHBAY_API void add_predicted_sizes(const ModelCost& cost, Json& metrics);
/// predicted_prefill_tokens_per_s, prefill_of_roofline.
PATCHBAY_API void add_predicted_prefill(const ModelCost& cost, const MachineLimits& machine, std::int64_t tokens, std::int64_t chunk, Json& metrics);
/// predicted_decode_tokens_per_s, decode_of_roofline, predicted_decode_bytes_per_token (weights and cached rows moved), with as many passes and
/// drafted tokens as there were; what a drafter costs is not predicted. Nothing where no token was decoded.
PATCHBAY_API void add_predicted_decoding(const ModelCost& cost, const MachineLimits& machine, std::span<const DecodedPrompt> prompts, Json& metrics);

}  // namespace patchbay
