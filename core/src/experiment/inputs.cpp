// Read twice: by plan, so that nothing is found wrong after the first run has taken its time, and by the experiment itself.
#include "experiment/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiment/sha256.h"

namespace patchbay {
namespace {

void must_exist(const char* key, const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return;
  throw Error(std::string("evaluation.") + key, "no file " + path, "a path from the current folder, the YAML's, or one above that",
              fmt::format("write it in the YAML, or give evaluation.{}=FILE", key));
}

void read_text(const Plan& plan, const Tokenizer& tokenizer, ExperimentInputs& inputs) {
  must_exist("text", plan.evaluation.text);
  inputs.text = evaluation_text(tokenizer, plan.evaluation.text);
  if (plan.scores_text()) {
    inputs.protocol = protocol_named(plan.evaluation.protocol, plan.evaluation.window);
    inputs.windows = windows_in(inputs.text, inputs.protocol, plan.evaluation.chunks);
    inputs.longest_sequence = std::max(inputs.longest_sequence, inputs.protocol.window);
  }
  if (!plan.has("throughput")) return;
  const auto there = static_cast<std::int64_t>(inputs.text.tokens.size());
  inputs.prefill_tokens = asks_for_prefill(plan) ? plan.evaluation.prefill_tokens : std::min(there, plan.evaluation.prefill_tokens);
  if (there == 0 || there < inputs.prefill_tokens)
    throw Error("evaluation.prefill_tokens", fmt::format("{} tokens are asked for", plan.evaluation.prefill_tokens),
                fmt::format("at most {}, as many as the text has", there));
  inputs.longest_sequence = std::max(inputs.longest_sequence, inputs.prefill_tokens + 1);
}

void read_tasks(const Plan& plan, const Tokenizer& tokenizer, ExperimentInputs& inputs) {
  must_exist("prompts", plan.evaluation.prompts);
  inputs.prompts_hash = sha256_of_file(plan.evaluation.prompts);
  for (auto& prompt : read_prompts(plan.evaluation.prompts, plan.evaluation.prompt_count)) {
    DecodingTask task{prompt, encode_from(plan.evaluation.prompts + ": " + prompt.name, tokenizer, prompt.text, true, true), plan.evaluation.max_tokens};
    if (prompt.max_tokens > 0) task.max_tokens = std::min(task.max_tokens, prompt.max_tokens);
    inputs.longest_sequence = std::max(inputs.longest_sequence, static_cast<std::int64_t>(task.tokens.size()) + task.max_tokens);
    inputs.tasks.push_back(std::move(task));
  }
}

}  // namespace

bool asks_for_prefill(const Plan& plan) {
  const auto yaml = Json::parse(plan.yaml_json);
  return yaml.contains("evaluation") && yaml["evaluation"].is_object() && yaml["evaluation"].contains("prefill_tokens");
}

ExperimentInputs read_inputs(const Plan& plan, const Tokenizer& tokenizer) {
  ExperimentInputs inputs;
  if (plan.scores_text() || plan.has("throughput")) read_text(plan, tokenizer, inputs);
  if (plan.decodes()) read_tasks(plan, tokenizer, inputs);
  return inputs;
}

}  // namespace patchbay
