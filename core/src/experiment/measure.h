/// @file measure.h
/// measure(session): speed, acceptance and sizes of one run.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiment/timings.h"
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

/// What is measured of a session: a prefill of `text`, its last logits wanted, and every task decoded, one sequence at a time.
struct Workload {
  std::span<const Token> text;
  std::span<const DecodingTask> tasks;
  std::uint64_t seed = 0;
  std::function<void()> between_steps = nullptr;  ///< see GenerationOptions
};

/// Untimed work before a measurement: two tokens of the first task, and, where the session was just `built`, the prefill.
PATCHBAY_API void warm_up(Session& session, const Workload& work, bool built);
/// Takes the times once. `between` is called between two tasks, while nothing is timed.
PATCHBAY_API RunTimes time_once(Session& session, const Workload& work, const std::function<void()>& between);
/// The prefill alone, untimed.
PATCHBAY_API void run_prefill(Session& session, const Workload& work);
/// Decodes every task through the run's decoder: tokens_per_pass, generated_tokens, and acceptance_rate where something was drafted.
/// `by_kind`: the same for the prompts of each kind, {KIND: {metrics}}. Returns what was generated: [{"name", "kind", "tokens", "text", ...}].
PATCHBAY_API Json decode_tasks(Session& session, const Workload& work, Json& metrics, Json& by_kind, const MeasureProgress& progress);
/// weights_bytes, bits_per_weight, quantized_bits_per_weight, kv_bytes_per_token.
PATCHBAY_API void add_sizes(Session& session, Json& metrics);

}  // namespace patchbay
