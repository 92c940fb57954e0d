/// @file plan.h
/// plan(yaml) -> runs: reads an experiment, multiplies its sweep out, and checks everything before a weight is read.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/evaluation.h"
#include "model_file.h"
#include "run_config.h"

namespace patchbay {

/// `evaluation:` in YAML. Files are looked for in the current folder, then in the YAML's folder and those above it.
struct EvaluationSettings {
  std::string text = "data/evaluation.txt";      ///< what perplexity and divergence score
  std::string protocol = "patchbay";
  std::int64_t window = 512, chunks = 10;        ///< chunks: windows scored; 0: all of the text
  std::string prompts = "data/prompts.jsonl";    ///< what generation and throughput decode
  std::int64_t prompt_count = 6;                 ///< prompts taken, from each kind in turn; 0: all
  std::int64_t max_tokens = 64;                  ///< decoded per prompt at most
  std::int64_t prefill_tokens = 512;             ///< of one timed prefill
  void visit(Fields& fields);
};

/// What a run's formats make of the model.
struct PredictedSizes {
  std::int64_t weights_bytes = 0, kv_bytes_per_token = 0;
  double bits_per_weight = 0;
  std::int64_t device_bytes = 0;  ///< of the weights, on a device that is not the host
  std::string activations;        ///< what they will be: "q8", "f16"
};

struct PlannedRun {
  std::string name;                                           ///< its labels in one line
  std::vector<std::pair<std::string, std::string>> labels;    ///< column and value: where the runs differ
  RunConfig config;
  std::string config_json;                                    ///< every setting in effect
  bool baseline = false;
  bool noise = false;      ///< the baseline again: what differs between the two is noise
  std::string calibration_sha256;                             ///< of the file that calibration reads, once the plan was checked; else ""
  std::optional<PredictedSizes> predicted;                    ///< once the plan was checked against the model
};

struct Plan {
  std::string path;                  ///< of the YAML file, "" when it is none
  std::string name, note, model;     ///< model: as written
  std::string model_path;
  std::vector<PlannedRun> runs;      ///< the baseline first, then the baseline again
  std::vector<std::string> tasks;
  std::uint64_t seed = 0;
  int repeat = 3;
  bool noise = true;                 ///< whether the baseline is measured again
  std::string out;                   ///< folder for the results
  EvaluationSettings evaluation;
  std::string yaml_json;             ///< the experiment as read, assignments applied

  PATCHBAY_API bool has(std::string_view task) const;
  bool scores_text() const { return has("perplexity") || has("divergence"); }
  /// The tasks whose figures the baseline's second measurement shows the noise of.
  bool measures_noise() const { return scores_text() || has("throughput"); }
  bool decodes() const { return has("generation") || has("throughput"); }
};

/// Everything but what needs the model file. `path` is where the YAML lies ("" when it is no file).
/// @throws Error naming file, line and key.
PATCHBAY_API Plan read_plan(Settings yaml, const std::string& path, std::span<const std::string> assignments = {});
/// Finds the model and checks every run against it, the text and the prompts included. @throws Error naming run and tensor, or the
/// key of `evaluation`.
PATCHBAY_API std::shared_ptr<const ModelFile> check_plan(Plan& plan);
/// Both, from a file.
PATCHBAY_API Plan plan_file(const std::string& path, std::span<const std::string> assignments = {});

/// {"name", "model", "out", "tasks", "seed", "repeat", "evaluation", "noise", "runs": [{"name", "baseline", "noise", "labels", "config",
/// "predicted"}]}
PATCHBAY_API std::string plan_json(const Plan& plan);
/// The runs as a table, the baseline marked.
PATCHBAY_API std::string plan_table(const Plan& plan);

}  // namespace patchbay
