/// @file generation.h
/// The step loop: several sequences, each with its own decoder, in one batch per step.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "patchbay/decoder.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"

namespace patchbay {

struct GenerationRequest {
  std::vector<Token> prompt;                 ///< at least one token
  std::int64_t max_tokens = 128;
  std::shared_ptr<Decoder> decoder;
  std::vector<std::shared_ptr<LogitsProcessor>> processors;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;                  ///< which random stream of the seed
  std::function<bool(Token)> is_end;         ///< end-of-generation tokens; null: only max_tokens ends
  std::function<void(Token)> on_token;       ///< streaming; may be null
};

struct GenerationResult {
  std::vector<Token> tokens;                 ///< output, the end-of-generation token kept
  enum class Finish { length, stop } finish = Finish::length;
  std::int64_t passes = 0;                   ///< model passes after the prefill
  std::int64_t drafted = 0, accepted = 0;    ///< draft tokens proposed and kept
  double prefill_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
};

struct GenerationOptions {
  std::int64_t max_batched_tokens = 8192;    ///< prefill is cut into chunks of this
  KvRetention* retention = nullptr;
  KvPrefix* prefix = nullptr;
};

/// Runs all requests to their ends, together, and returns their results in order. @throws Error when a prompt alone does not fit.
PATCHBAY_API std::vector<GenerationResult> generate(ModelRunner& runner, std::span<GenerationRequest> requests,
                                                    const GenerationOptions& options = {});

}  // namespace patchbay
