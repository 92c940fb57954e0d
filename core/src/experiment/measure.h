/// @file measure.h
/// measure(session): speed, acceptance and sizes of one run.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiment/metrics.h"
#include "session.h"

namespace patchbay {

/// One line of a prompts file: {"name", "kind", "prompt", "max_tokens"}; special tokens in `prompt` are parsed.
struct Prompt {
  std::string name, kind, text;
  std::int64_t max_tokens = 0;  ///< 0: no limit of its own
};
/// The first `count` prompts, taken from each kind in turn; all when count is 0. @throws Error naming file and line.
PATCHBAY_API std::vector<Prompt> read_prompts(const std::string& path, std::int64_t count);

/// A prompt as tokens, with how many to decode.
struct DecodingTask {
  Prompt prompt;
  std::vector<Token> tokens;
  std::int64_t max_tokens = 0;
};

using MeasureProgress = std::function<void(const std::string& doing, double fraction)>;

/// prefill_tokens_per_s: one sequence of `tokens`, its last logits wanted; a warm-up first, then `repeat` times.
PATCHBAY_API void measure_prefill(Session& session, std::span<const Token> tokens, int repeat, std::uint64_t seed, Json& metrics,
                                  const MeasureProgress& progress);
/// Decodes every task through the run's decoder, one sequence at a time, `repeat` times (once without `times`, when only the texts
/// and the acceptance are wanted). With `times`: decode_tokens_per_s, ttft_ms, tpot_ms; always: tokens_per_pass, generated_tokens,
/// and acceptance_rate where something was drafted. Returns what was generated: [{"name", "kind", "tokens", "text", ...}].
PATCHBAY_API Json measure_decoding(Session& session, std::span<const DecodingTask> tasks, int repeat, bool times, std::uint64_t seed,
                                   Json& metrics, const MeasureProgress& progress);
/// weights_bytes, bits_per_weight, quantized_bits_per_weight, kv_bytes_per_token.
PATCHBAY_API void add_sizes(const Session& session, Json& metrics);

}  // namespace patchbay
