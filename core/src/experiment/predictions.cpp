#include "experiment/predictions.h"

#include <nlohmann/json.hpp>
#include <string>

namespace patchbay {
namespace {

/// PHASE_of_roofline: the measured speed over the predicted one; its interval is the measured one's.
void add_speed(Json& metrics, const std::string& phase, double predicted) {
  const std::string name = phase + "_tokens_per_s", share = phase + "_of_roofline";
  metrics["predicted_" + name] = predicted;
  if (!metrics.contains(name)) return;
  metrics[share] = metrics[name].get<double>() / predicted;
  if (const auto interval = metrics.find(name + "_ci"); interval != metrics.end())
    metrics[share + "_ci"] = {(*interval)[0].get<double>() / predicted, (*interval)[1].get<double>() / predicted};
}

}  // namespace

void add_predicted_sizes(const ModelCost& cost, Json& metrics) {
  metrics["predicted_weights_bytes"] = cost.weights_bytes;
  metrics["predicted_kv_bytes_per_token"] = cost.kv_bytes_per_token;
}

void add_predicted_prefill(const ModelCost& cost, const MachineLimits& machine, std::int64_t tokens, std::int64_t chunk, Json& metrics) {
  add_speed(metrics, "prefill", static_cast<double>(tokens) / prefill_seconds(cost, tokens, chunk, machine));
}

void add_predicted_decoding(const ModelCost& cost, const MachineLimits& machine, std::span<const DecodedPrompt> prompts, Json& metrics) {
  double seconds = 0, bytes = 0, tokens = 0;
  for (const auto& prompt : prompts) {  // (C9); the first output token comes with the prefill
    if (prompt.passes == 0) continue;
    const double rows = 1 + static_cast<double>(prompt.drafted) / static_cast<double>(prompt.passes);
    const double context = static_cast<double>(prompt.prompt_tokens) + (static_cast<double>(prompt.output_tokens) - 2) / 2;
    const PassShape pass{rows, context, rows};
    const auto moved = pass_cost(cost, pass);
    seconds += static_cast<double>(prompt.passes) * pass_seconds(cost, pass, machine);
    bytes += static_cast<double>(prompt.passes) * (moved.weight_bytes + moved.kv_bytes);
    tokens += static_cast<double>(prompt.output_tokens) - 1;
  }
  if (tokens <= 0) return;
  add_speed(metrics, "decode", tokens / seconds);
  metrics["predicted_decode_bytes_per_token"] = bytes / tokens;
}

}  // namespace patchbay
