#include "experiment/plan_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cost_model.h"
#include "engine/model_spec.h"
#include "experiment/inputs.h"
#include "files.h"
#include "quantize/calibration_tokens.h"
#include "session.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// What is timed or decoded in one sequence fits into the model's context, or its key is named.
void check_lengths(const Plan& plan, const ExperimentInputs& inputs, std::int64_t context) {
  const auto& evaluation = plan.evaluation;
  if (plan.has("throughput") && evaluation.prefill_tokens >= context)
    throw Error("evaluation.prefill_tokens",
                fmt::format("{} tokens, and one decoded after them, do not fit into the model's context", evaluation.prefill_tokens),
                fmt::format("at most {}", context - 1));
  for (const auto& task : inputs.tasks) {
    const auto tokens = static_cast<std::int64_t>(task.tokens.size());
    if (tokens + task.max_tokens <= context) continue;
    const auto problem = fmt::format("{} tokens after the {} of the prompt {} do not fit into the model's context of {}", task.max_tokens, tokens,
                                     escaped(task.prompt.name, 60), context);
    if (tokens >= context) throw Error("evaluation.prompts", problem, fmt::format("prompts of {} tokens or fewer", context - 1), "take other prompts");
    throw Error("evaluation.max_tokens", problem, fmt::format("at most {}", context - tokens),
                "decode fewer tokens, or take other prompts (evaluation.prompts)");
  }
}

/// The text of a file without the blanks around it.
std::string trimmed_text(const std::string& path) {
  const std::string text = read_whole_file(path);
  const auto first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// What was calibrated on must not be scored, under whatever name it lies there, and no piece of it either.
void check_calibration_text(const Plan& plan, PlannedRun& run) {
  const CalibrationSettings& calibration = run.config.calibration;
  if (!needs_calibration(run.config)) return;
  run.calibration_sha256 = calibration_hash(calibration);
  if (calibration.from_model()) return;
  const std::string ours = trimmed_text(calibration_file(calibration));
  const auto refuse_where_scored = [&](const char* key, const std::string& path) {
    const std::string scored = trimmed_text(path);
    if (ours.find(scored) == std::string::npos && scored.find(ours) == std::string::npos) return;
    throw Error("weights.calibration", fmt::format("{} what is scored (evaluation.{}: {})", ours == scored ? "it is" : "it shares its text with", key, escaped(path, 300)),
                "any other text", "a model that was fitted to a text looks better on it than it is");
  };
  if (plan.scores_text()) refuse_where_scored("text", plan.evaluation.text);
  if (plan.has("generation")) refuse_where_scored("prompts", plan.evaluation.prompts);
}

}  // namespace

std::shared_ptr<const ModelFile> check_against_model(Plan& plan) {
  plan.model_path = find_model(plan.model);
  auto file = ModelFile::open(plan.model_path);
  check_model(*file);
  const auto context = read_model_spec(*file).context;
  const auto window = plan.scores_text() ? protocol_named(plan.evaluation.protocol, plan.evaluation.window).window : 0;
  if (window > context)
    throw Error("evaluation.window", fmt::format("{} tokens do not fit into the model's context", window), fmt::format("at most {}", context));
  if (context > 1 && !asks_for_prefill(plan)) plan.evaluation.prefill_tokens = std::min(plan.evaluation.prefill_tokens, context - 1);
  const auto inputs = read_inputs(plan, *make_tokenizer(*file));
  if (plan.has("throughput")) plan.evaluation.prefill_tokens = inputs.prefill_tokens;
  check_lengths(plan, inputs, context);
  for (auto& run : plan.runs) {
    try {
      const std::string activations = check_run(*file, run.config, {inputs.longest_sequence, 1, {}});
      check_calibration_text(plan, run);
      const auto cost = model_cost(*file, run.config);
      run.predicted = PredictedSizes{cost.weights_bytes, cost.kv_bytes_per_token, cost.bits_per_weight(), cost.device_bytes, activations};
    } catch (const Error& error) {
      throw error.at("run " + run.name);
    }
  }
  return file;
}

}  // namespace patchbay
