/// @file generation.h
/// The step loop: several sequences, each with its own decoder, in one batch per step.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "patchbay/decoder.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"

namespace patchbay {

struct GenerationResult {
  std::vector<Token> tokens;                 ///< output, the end-of-generation token kept
  /// length: max_tokens or the context's end; stop: an end-of-generation token; full: the cache had no room for more.
  enum class Finish { length, stop, full } finish = Finish::length;
  std::int64_t passes = 0;                   ///< model passes after the prefill
  std::int64_t drafted = 0, accepted = 0;    ///< draft tokens proposed and kept
  /// From the call of generate() to the first logits; from the first token to the last; from the call to the first token.
  double prefill_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
};

struct GenerationRequest {
  std::vector<Token> prompt;                 ///< at least one token
  std::int64_t max_tokens = 128;
  std::shared_ptr<Decoder> decoder;
  std::vector<std::shared_ptr<LogitsProcessor>> processors;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;                  ///< which random stream of the seed
  std::function<bool(Token)> is_end;         ///< end-of-generation tokens; null: only max_tokens ends
  std::function<void(Token)> on_token;       ///< streaming; may be null
  /// Called when this request has ended, so that an Error about another one loses nothing; may be null. A prompt that does not
  /// fit gets Finish::full.
  std::function<void(const GenerationResult&)> on_finish;
};

/// How a runner that draws may choose tokens in a decoder's place; nothing where the decoder or a processor must see the logits.
PATCHBAY_API std::optional<TokenDraw> draw_on_device(const Decoder& decoder, std::span<const std::shared_ptr<LogitsProcessor>> processors);

struct GenerationOptions {
  std::int64_t max_batched_tokens = 8192;    ///< prefill is cut into chunks of this
  KvRetention* retention = nullptr;
  KvPrefix* prefix = nullptr;
  std::function<void()> between_steps;       ///< may throw to end it all; may be null
};

/// Runs all requests to their ends, together, and returns their results in order. A full cache drops this step's drafts, then
/// makes the youngest sequences wait (their cache is given up and recomputed later). No token changes by that, but for
/// speculation that accepts by chance: its draws depend on what was drafted, their distribution does not.
/// @throws Error when a prompt alone does not fit: past the context, at once; more than the cache holds, after all others ended.
PATCHBAY_API std::vector<GenerationResult> generate(ModelRunner& runner, std::span<GenerationRequest> requests,
                                                    const GenerationOptions& options = {});

}  // namespace patchbay
