/// @file inputs.h
/// What an experiment is measured on: the text as windows, the prompts as tokens.
#pragma once
#include <string>
#include <vector>

#include "experiment/evaluation.h"
#include "experiment/measure.h"
#include "experiment/plan.h"

namespace patchbay {

/// Only what the plan's tasks need; the rest is empty.
struct ExperimentInputs {
  EvaluationText text;
  Protocol protocol;
  std::int64_t windows = 0;           ///< scored
  std::vector<DecodingTask> tasks;
  std::string prompts_hash;
  std::int64_t prefill_tokens = 0;    ///< of the timed prefill
  std::int64_t longest_sequence = 1;  ///< tokens of the longest sequence that any task runs
};
/// Whether the experiment says how long the timed prefill is. If not, it is as long as there is room for.
PATCHBAY_API bool asks_for_prefill(const Plan& plan);
/// @throws Error for a file that is missing or malformed, and a text that is too short for what is asked of it.
PATCHBAY_API ExperimentInputs read_inputs(const Plan& plan, const Tokenizer& tokenizer);

}  // namespace patchbay
