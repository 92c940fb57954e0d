// The order within a run: memory and speed first, while nothing but this run's session is loaded; then quality, for which the
// baseline's head may be needed beside it. Quality is computed once per configuration of what it depends on: everything but the
// decoder and its processors.
#include "experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiment/environment.h"
#include "experiment/inputs.h"
#include "experiment/measure.h"
#include "experiment/record_set.h"
#include "experiment/records.h"
#include "experiment/sha256.h"

namespace patchbay {
Progress::~Progress() = default;
void Progress::finished(double, const std::string& line) { note(line); }

namespace {

class Experiment {
 public:
  Experiment(const Plan& plan, std::shared_ptr<const ModelFile> file, const ExperimentOptions& options, Progress& progress)
      : plan_(plan), file_(std::move(file)), options_(options), progress_(progress), environment_(environment()),
        folder_(options.out.empty() ? plan.out : options.out, plan.name, options.resume),
        inputs_(read_inputs(plan, *make_tokenizer(*file_))), model_hash_(sha256_of_file(plan.model_path)) {
    folder_.write_experiment(Json{{"name", plan.name}, {"yaml", Json::parse(plan.yaml_json)}, {"plan", Json::parse(plan_json(plan))}}.dump(2));
  }

  std::vector<Json> run() {
    std::vector<Json> records;
    missing_ = std::ranges::count_if(plan_.runs, [&](const auto& run) { return !folder_.find(run_hash(run)); });
    for (at_ = 0; at_ < plan_.runs.size(); ++at_) {
      const auto& run = plan_.runs[at_];
      if (auto found = folder_.find(run_hash(run))) {
        note_origin(run, *found);
        (*found)["run"] = run.name;  // how a run is called depends on what the sweep has beside it
        (*found)["labels"] = labels_of(run);
        records.push_back(std::move(*found));
        continue;
      }
      try {
        records.push_back(measure(run));
      } catch (const Error& error) {
        throw error.at("run " + run.name);
      }
      folder_.add(records.back());
      progress_.finished(static_cast<double>(++measured_) / static_cast<double>(missing_), fmt::format("{}/{} {}", at_ + 1, plan_.runs.size(), run.name));
    }
    std::error_code ignored;
    std::filesystem::remove(hidden_path(), ignored);
    return records;
  }

 private:
  // --- what a result was computed from

  /// All that the scores of a text depend on.
  nlohmann::json quality_identity(const PlannedRun& run) const {
    auto config = nlohmann::json::parse(run.config_json);
    config.erase("decoder");
    config.erase("processors");
    config.erase("threads");
    return {{"config", config}, {"model", model_hash_}, {"text", inputs_.text.sha256},
            {"protocol", inputs_.protocol.name}, {"window", inputs_.protocol.window}, {"windows", inputs_.windows},
            {"seed", plan_.seed}, {"build_id", environment_.build_id}, {"sources", environment_.sources}};
  }
  std::string scores_hash(const PlannedRun& run) const {
    auto identity = quality_identity(run);
    if (plan_.has("divergence")) identity["baseline"] = quality_identity(plan_.runs[0]);
    return identity_hash(identity);
  }
  std::string run_hash(const PlannedRun& run) const {
    nlohmann::json identity = {{"config", nlohmann::json::parse(run.config_json)}, {"model", model_hash_}, {"tasks", plan_.tasks},
                               {"seed", plan_.seed}, {"build_id", environment_.build_id}, {"sources", environment_.sources},
                               {"baseline", run.baseline}};
    if (plan_.scores_text()) identity["quality"] = {quality_identity(run), quality_identity(plan_.runs[0])};
    if (plan_.decodes()) {
      identity["prompts"] = {inputs_.prompts_hash, plan_.evaluation.prompt_count, plan_.evaluation.max_tokens};
    }
    if (plan_.has("throughput"))
      identity["throughput"] = {plan_.repeat, options_.threads, plan_.evaluation.prefill_tokens, inputs_.text.sha256};
    return identity_hash(identity);
  }

  /// A record's hash does not know the machine, and another commit may hold the same code: say so.
  void note_origin(const PlannedRun& run, const Json& record) const {
    const auto& origin = record.at("environment");
    if (origin.value("commit", "") != environment_.commit || origin.value("host", "") != environment_.host)
      progress_.note(fmt::format("{}: kept from {} at commit {}", run.name, origin.value("host", "?"), origin.value("commit", "?")));
  }

  // --- one run

  std::unique_ptr<Session> build(const PlannedRun& run) {
    auto config = run.config;
    if (config.threads == 0) config.threads = options_.threads;
    return std::make_unique<Session>(file_, config, SessionOptions{inputs_.longest_sequence, 1});
  }

  void tell(const std::string& doing, double fraction) {
    progress_.doing((static_cast<double>(measured_) + fraction) / static_cast<double>(missing_),
                    fmt::format("{}/{} {}: {}", at_ + 1, plan_.runs.size(), doing, plan_.runs[at_].name));
  }

  Json measure(const PlannedRun& run) {
    const auto started = utc_now();
    tell("loading", 0);
    file_->release_pages();
    const bool own_peak = reset_peak_memory();
    auto session = build(run);
    Json speed = Json::object(), outputs;
    if (plan_.has("throughput")) {
      const std::span<const Token> tokens(inputs_.text.tokens.data(), plan_.evaluation.prefill_tokens);
      measure_prefill(*session, tokens, plan_.repeat, plan_.seed, speed, [&](const std::string& what, double f) { tell(what, 0.05 + 0.25 * f); });
    }
    if (plan_.decodes())
      outputs = measure_decoding(*session, inputs_.tasks, plan_.repeat, plan_.has("throughput"), plan_.seed, speed,
                                 [&](const std::string& what, double f) { tell(what, 0.3 + 0.4 * f); });
    Json sizes = Json::object(), metrics = Json::object();
    if (plan_.has("memory")) {
      add_sizes(*session, sizes);
      sizes["peak_rss_bytes"] = peak_memory_bytes();
    }
    if (plan_.scores_text()) add_quality(run, *session, metrics);
    metrics.update(sizes);
    metrics.update(speed);
    return record(run, *session, metrics, outputs, started, own_peak);
  }

  static Json labels_of(const PlannedRun& run) {
    Json labels = Json::object();
    for (const auto& [column, value] : run.labels) labels[column] = value;
    return labels;
  }

  Json record(const PlannedRun& run, Session& session, const Json& metrics, const Json& outputs, const std::string& started, bool own_peak) {
    Json record = {{"schema", kRecordSchema}, {"name", plan_.name}, {"run", run.name}, {"hash", run_hash(run)}, {"baseline", run.baseline}, {"labels", labels_of(run)},
                   {"model", plan_.model}, {"model_sha256", model_hash_}, {"config", Json::parse(run.config_json)}, {"seed", plan_.seed},
                   {"repeat", plan_.repeat}, {"tasks", plan_.tasks}, {"paths", session.paths()}};
    record["environment"] = {{"host", environment_.host}, {"os", environment_.os}, {"cpu", environment_.cpu}, {"cores", environment_.cores},
                             {"threads", session.device().concurrency()}, {"version", environment_.version},
                             {"build_id", environment_.build_id}, {"commit", environment_.commit}, {"sources", environment_.sources},
                             {"started", started},
                             {"peak_rss_of", own_peak ? "this run" : "the process so far"}};
    record["evaluation"] = Json::object();
    if (plan_.scores_text())
      record["evaluation"] = {{"text", plan_.evaluation.text}, {"text_sha256", inputs_.text.sha256},
                              {"protocol", inputs_.protocol.name}, {"window", inputs_.protocol.window}, {"windows", inputs_.windows},
                              {"first_scored", inputs_.protocol.first_scored},
                              {"bos", inputs_.text.bos >= 0 ? "first of each window" : "none"}, {"scores", "scores/" + scores_hash(run) + ".bin"}};
    if (plan_.decodes())
      record["evaluation"].update({{"prompts", plan_.evaluation.prompts}, {"prompts_sha256", inputs_.prompts_hash},
                                   {"max_tokens", plan_.evaluation.max_tokens}});
    record["metrics"] = metrics;
    if (!outputs.is_null()) record["outputs"] = outputs;
    return record;
  }

  // --- quality

  std::string hidden_path() const { return folder_.scores_path(identity_hash(quality_identity(plan_.runs[0])), ".hidden"); }

  void add_quality(const PlannedRun& run, Session& session, Json& metrics) {
    const auto scores = scores_of(run, &session);
    const auto baseline = run.baseline ? scores : scores_of(plan_.runs[0], nullptr);
    if (plan_.has("perplexity")) add_perplexity(metrics, scores, &baseline, plan_.seed);
    if (plan_.has("divergence")) add_divergence(metrics, scores, plan_.seed);
  }

  /// From the run's file, or computed; `session` null: one is built when it is needed.
  TokenScores scores_of(const PlannedRun& run, Session* session) {
    const auto path = folder_.scores_path(scores_hash(run), ".bin");
    if (!std::filesystem::exists(path)) write_scores(path, score_run(run, session ? *session : *build(run)));
    return read_scores(path);
  }

  TokenScores score_run(const PlannedRun& run, Session& session) {
    ScoreOptions options;
    options.windows = inputs_.windows;
    options.progress = [&](std::int64_t done) { tell("scoring", 0.7 + 0.3 * static_cast<double>(done) / static_cast<double>(inputs_.windows)); };
    const auto model = scored_model(session);
    if (!plan_.has("divergence")) return score(model, inputs_.text, inputs_.protocol, options);
    // The baseline is compared with itself through the same file: its row shows what that costs.
    auto baseline_session = run.baseline ? nullptr : build(plan_.runs[0]);
    const auto baseline = run.baseline ? model : scored_model(*baseline_session);
    if (!std::filesystem::exists(hidden_path())) keep_hidden(baseline);
    const auto hidden = HiddenFile::open(hidden_path(), baseline.hidden_size);
    options.baseline = &baseline;
    options.baseline_hidden = &hidden;
    return score(model, inputs_.text, inputs_.protocol, options);
  }

  void keep_hidden(const ScoredModel& baseline) {
    tell("the baseline's hidden states", 0.7);
    auto file = HiddenFile::create(hidden_path(), baseline.hidden_size);
    keep_hidden_states(baseline, inputs_.text, inputs_.protocol, inputs_.windows, file);
    file.finish();
  }

  const Plan& plan_;
  std::shared_ptr<const ModelFile> file_;
  ExperimentOptions options_;
  Progress& progress_;
  Environment environment_;
  RecordFolder folder_;
  ExperimentInputs inputs_;
  std::string model_hash_;
  std::size_t at_ = 0;                      ///< the run in work
  std::int64_t missing_ = 0, measured_ = 0; ///< runs without a record at the start; those of them that have one now
};

}  // namespace

std::vector<Json> run_experiment(const Plan& plan, std::shared_ptr<const ModelFile> file, const ExperimentOptions& options, Progress& progress) {
  return Experiment(plan, std::move(file), options, progress).run();
}

}  // namespace patchbay
