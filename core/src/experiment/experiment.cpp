// Speeds come first, several runs in turn (rounds.h). Then each run by itself: memory and texts, while nothing but its session is
// loaded; then quality, for which the baseline's head may be needed beside it. Quality is computed once per configuration of what it
// depends on: everything but the decoder and its processors. A record is written when all of its run is known.
#include "experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "experiment/cpu_load.h"
#include "experiment/emulated.h"
#include "experiment/environment.h"
#include "experiment/inputs.h"
#include "experiment/measure.h"
#include "experiment/predictions.h"
#include "experiment/record_set.h"
#include "experiment/records.h"
#include "experiment/report.h"
#include "experiment/rounds.h"
#include "experiment/score_files.h"
#include "experiment/sha256.h"
#include "experiment/text_table.h"
#include "experiment/weight_records.h"

namespace patchbay {
Progress::~Progress() = default;
void Progress::finished(double, const std::string& line) { note(line); }

namespace {

constexpr double kTimingShare = 0.7;                        ///< of a run's time, roughly
constexpr std::int64_t kKeptSessionsBytes = std::int64_t{4} << 30;  ///< sessions kept loaded between rounds, and at most half of what is free
constexpr std::int64_t kNoiseShare = 5;                     ///< one window in so many shows whether quality has noise

class Experiment {
 public:
  Experiment(const Plan& plan, std::shared_ptr<const ModelFile> file, const ExperimentOptions& options, Progress& progress)
      : plan_(plan), file_(std::move(file)), options_(options), progress_(progress), environment_(environment()),
        folder_(options.out.empty() ? plan.out : options.out, plan.name, options.resume, Json::parse(plan.yaml_json)), timings_(folder_.timings_path(), environment_.host),
        inputs_(read_inputs(plan, *make_tokenizer(*file_))), model_hash_(sha256_of_files(file_->paths())) {
    for (const auto& run : plan_.runs) hashes_.push_back(run_hash(run));
    if (plan.has("throughput")) calibrations_.emplace(options.recalibrate);
    write_plan();
  }

  std::vector<Json> run() {
    find_finished();
    note_changes();
    std::vector<Json> records;
    for (const auto& hash : hashes_) {
      if (kept(hash)) continue;
      ++missing_;
      if (timings_.finished(hash)) ++timed_;
    }
    tell_what_comes();
    for (at_ = 0; at_ < plan_.runs.size(); ++at_) {
      const auto& run = plan_.runs[at_];
      if (auto found = kept(hashes_[at_])) {
        note_origin(run, *found);
        (*found)["run"] = run.name;  // how a run is called depends on what the sweep has beside it
        (*found)["labels"] = labels_of(run);
        records.push_back(std::move(*found));
        continue;
      }
      try {
        if (plan_.has("throughput") && !timings_.finished(hashes_[at_])) time_with_next();
        records.push_back(measure(run));
      } catch (const Error& error) {
        throw error.at("run " + run.name);
      }
      folder_.add(records.back());
      finished_.insert(hashes_[at_]);
      ++measured_;
      progress_.finished(fraction(0), fmt::format("{}/{} {}", at_ + 1, plan_.runs.size(), run.name));
    }
    std::error_code ignored;
    std::filesystem::remove(hidden_path(), ignored);
    std::filesystem::remove_all(quantized_path(), ignored);
    return records;
  }

 private:
  /// The plan with the hash of each run, by which reports know the records that were asked for from those of other settings or code.
  void write_plan() const {
    auto plan = Json::parse(plan_json(plan_));
    for (std::size_t i = 0; i < hashes_.size(); ++i) plan["runs"][i]["hash"] = hashes_[i];
    folder_.write_experiment(Json{{"name", plan_.name}, {"yaml", Json::parse(plan_.yaml_json)}, {"plan", plan}}.dump(2));
  }

  // --- what a result was computed from

  /// All that the scores of a text depend on.
  nlohmann::json quality_identity(const PlannedRun& run) const {
    auto config = nlohmann::json::parse(run.config_json);
    config.erase("decoder");
    config.erase("processors");
    config.erase("threads");
    nlohmann::json identity = {{"config", config}, {"model", model_hash_}, {"text", inputs_.text.sha256},
                               {"protocol", inputs_.protocol.name}, {"window", inputs_.protocol.window}, {"windows", inputs_.windows},
                               {"seed", plan_.seed}, {"build_id", environment_.build_id}, {"sources", environment_.sources}};
    if (!run.calibration_sha256.empty()) identity["calibration"] = run.calibration_sha256;
    return identity;
  }
  std::string scores_hash(const PlannedRun& run) const {
    auto identity = quality_identity(run);
    if (plan_.has("divergence")) identity["baseline"] = quality_identity(plan_.runs[0]);
    if (run.noise) identity["noise"] = {windows_of(run), batch_split_of(run)};
    return identity_hash(identity);
  }
  std::string run_hash(const PlannedRun& run) const {
    nlohmann::json identity = {{"config", nlohmann::json::parse(run.config_json)}, {"model", model_hash_}, {"tasks", plan_.tasks},
                               {"seed", plan_.seed}, {"build_id", environment_.build_id}, {"sources", environment_.sources},
                               {"baseline", run.baseline}};
    if (run.noise) identity["noise"] = true;
    if (!run.calibration_sha256.empty()) identity["calibration"] = run.calibration_sha256;
    if (plan_.scores_text()) identity["quality"] = {quality_identity(run), quality_identity(plan_.runs[0])};
    if (plan_.decodes()) {
      identity["prompts"] = {inputs_.prompts_hash, plan_.evaluation.prompt_count, plan_.evaluation.max_tokens};
    }
    if (plan_.has("throughput"))
      identity["throughput"] = {plan_.repeat, options_.threads, inputs_.prefill_tokens, inputs_.text.sha256,
                                nlohmann::json::parse(plan_.runs[0].config_json)};  // speeds are compared with the baseline's
    return identity_hash(identity);
  }

  /// Says why runs that the folder holds are measured again.
  void note_changes() const {
    std::int64_t other_code = 0, other_settings = 0, without_scores = 0;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      if (folder_.find(hashes_[i])) {
        if (!kept(hashes_[i])) ++without_scores;
        continue;
      }
      const auto older = folder_.newest(Json::parse(plan_.runs[i].config_json), plan_.runs[i].noise);
      if (!older) continue;
      const auto& code = older->at("environment");
      const bool same_code = code.value("sources", "") == environment_.sources && code.value("build_id", "") == environment_.build_id;
      ++(same_code ? other_settings : other_code);
    }
    const auto note = [&](std::int64_t runs, const char* reason) {
      if (runs > 0) progress_.note(fmt::format("{} of {} runs of this folder {} measured again: {}", runs, hashes_.size(), runs == 1 ? "is" : "are", reason));
    };
    note(without_scores, "the scores of their tokens are missing or damaged");
    note(other_code, "the code of the core or of a plugin is not that of their records (every source file counts, a new plugin's too)");
    note(other_settings, "the text, the windows, the tasks, the baseline, threads or another setting of the experiment is not that of their records");
  }

  /// A record whose scores were lost or damaged counts as not there, so that both are made again.
  bool has_scores(const Json& record) const {
    const auto* scores = value_at(record, {"evaluation", "scores"});
    return scores && scores->is_string() && scores_are_whole((std::filesystem::path(folder_.path()) / scores->get<std::string>()).string());
  }
  void find_finished() {
    for (const auto& hash : hashes_)
      if (const auto record = folder_.find(hash); record && (!plan_.scores_text() || has_scores(*record))) finished_.insert(hash);
  }
  std::optional<Json> kept(const std::string& hash) const { return finished_.contains(hash) ? folder_.find(hash) : std::nullopt; }

  /// The first round or run may take minutes: until then this is all there is to see.
  void tell_what_comes() {
    if (missing_ == 0) return;
    auto text = fmt::format("{} into {}", counted(std::ssize(plan_.runs), "run"), folder_.path());
    if (const auto here = std::ssize(plan_.runs) - missing_; here > 0) text += fmt::format(", {} of them finished", here);
    if (plan_.has("throughput")) text += fmt::format("; speeds first, in {}", counted(plan_.repeat, "round"));
    progress_.note(text + "; a line after each");
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
    return std::make_unique<Session>(file_, config, SessionOptions{inputs_.longest_sequence, 1, quantize_options(run)});
  }

  std::string quantized_path() const { return (std::filesystem::path(folder_.path()) / "quantized").string(); }

  /// A run is built several times, and its weights are quantised once: they lie in the folder until all runs are done.
  QuantizeOptions quantize_options(const PlannedRun& run) {
    QuantizeOptions options;
    options.folder = quantized_path();
    options.progress = [this, name = run.name](double share, const std::string& what) {
      progress_.doing(fraction(0), fmt::format("quantising {}, {:.0f}%: {}", name, 100 * share, what));
    };
    options.note = [this](const std::string& line) {
      if (noted_.insert(line).second) progress_.note(line);
    };
    return options;
  }

  /// Of all that has to be measured, `of_run` of what the present run needs by itself included.
  double fraction(double of_run) const {
    const double timing = plan_.has("throughput") ? kTimingShare : 0;
    return std::min(1.0, (timing * timed_ + (1 - timing) * (static_cast<double>(measured_) + of_run)) / static_cast<double>(missing_));
  }
  void tell(const std::string& doing, double of_run) {
    progress_.doing(fraction(of_run), fmt::format("{}/{} {}: {}", at_ + 1, plan_.runs.size(), doing, plan_.runs[at_].name));
  }

  std::span<const Token> first_window() const { return {inputs_.text.tokens.data(), static_cast<std::size_t>(inputs_.protocol.window)}; }

  Workload workload() const {
    return {{inputs_.text.tokens.data(), static_cast<std::size_t>(inputs_.prefill_tokens)}, inputs_.tasks, plan_.seed, [this] { progress_.between_steps(); }};
  }

  /// Times this run in turn with those of the next that wait for it, and with the baseline, which all are compared with.
  void time_with_next() {
    std::vector<RoundRun> group = {{0, hashes_[0]}};
    for (auto i = std::max<std::size_t>(at_, 1); i < plan_.runs.size() && group.size() <= kRunsPerSeries; ++i)
      if (!kept(hashes_[i]) && !timings_.finished(hashes_[i])) group.push_back({i, hashes_[i]});
    const auto waiting = static_cast<double>(group.size() - (kept(hashes_[0]) ? 1 : 0)), timed_before = timed_;
    if (const auto kept = timings_.series(series_of(group, plan_.repeat)).rounds.size())
      progress_.note(fmt::format("speed: {} of {} rounds are kept; one that was cut off is measured again", kept, plan_.repeat));
    const auto pool_bytes = std::min(kKeptSessionsBytes, available_memory_bytes() / 2);
    SessionPool pool([&](std::size_t run) { return build(plan_.runs[run]); }, pool_bytes);
    measure_rounds(timings_, group, plan_.repeat, pool, workload(), [&](int round, std::size_t visit, std::size_t visits) {
      timed_ = timed_before + waiting * (round - 1 + static_cast<double>(visit) / static_cast<double>(visits)) / plan_.repeat;
      if (visit < visits) return progress_.doing(fraction(0), fmt::format("speed, round {}/{}: run {} of {}", round, plan_.repeat, visit + 1, visits));
      progress_.finished(fraction(0), fmt::format("speed, round {}/{} of {}", round, plan_.repeat, counted(static_cast<std::int64_t>(visits), "run")));
    });
  }

  Json measure(const PlannedRun& run) {
    const auto started = utc_now();
    tell("loading", 0);
    if (needs_walk(run.config)) build(run);  // so that the peak below is that of running, not of quantising
    file_->release_pages();
    const bool own_peak = reset_peak_memory();
    auto session = build(run);
    Json metrics = Json::object(), sizes = Json::object(), decoding = Json::object(), by_kind = Json::object(), outputs;
    if (!run.noise) {  // texts and bytes have no noise
      if (plan_.has("throughput")) run_prefill(*session, workload());
      if (plan_.decodes()) outputs = decode_tasks(*session, workload(), decoding, by_kind, [&](const std::string& what, double f) { tell(what, 0.1 + 0.3 * f); });
      if (plan_.has("memory")) {
        add_sizes(*session, sizes);
        const bool ran = plan_.decodes();
        if (!ran && plan_.scores_text()) run_prefill(*session, {first_window(), {}, plan_.seed, [this] { progress_.between_steps(); }});
        if (ran || plan_.scores_text()) sizes["peak_rss_bytes"] = peak_memory_bytes();  // of a model that nothing asks to run, loading alone says nothing
      }
    }
    if (plan_.scores_text()) add_quality(run, *session, metrics);
    metrics.update(sizes);
    if (plan_.has("throughput")) add_times(metrics, *timings_.finished(hashes_[at_]), hashes_[at_], plan_.seed);
    metrics.update(decoding);
    if (!run.noise) add_predictions(*session, outputs, metrics);
    auto result = record(run, *session, metrics, outputs, started, own_peak);
    if (plan_.decodes()) result["by_kind"] = with_times_of_kinds(std::move(by_kind));
    return result;
  }

  /// A second measurement of the baseline has times alone.
  Json with_times_of_kinds(Json by_kind) const {
    if (plan_.has("throughput"))
      for (const auto& task : inputs_.tasks)
        if (const auto& kind = task.prompt.kind; !by_kind[kind].contains("decode_tokens_per_s"))
          add_times_of_kind(by_kind[kind], *timings_.finished(hashes_[at_]), hashes_[at_], kind, plan_.seed);
    return by_kind;
  }

  /// What was to be expected beside what was measured.
  void add_predictions(Session& session, const Json& outputs, Json& metrics) {
    const auto cost = session.cost();
    if (plan_.has("memory")) add_predicted_sizes(cost, metrics);
    if (!calibrations_ || !session.device().is_host()) return;  // the calibration is of this machine's CPU
    const int threads = session.host().concurrency();
    const auto machine = calibrations_->of(threads).limits(used_threads(threads));
    std::vector<DecodedPrompt> prompts;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      prompts.push_back({static_cast<std::int64_t>(inputs_.tasks[i].tokens.size()), static_cast<std::int64_t>(outputs[i]["tokens"].size()),
                         outputs[i]["passes"], outputs[i]["drafted"]});
    add_predicted_prefill(cost, machine, inputs_.prefill_tokens, session.config().max_batched_tokens, metrics);
    add_predicted_decoding(cost, machine, prompts, metrics);
  }

  static Json labels_of(const PlannedRun& run) {
    Json labels = Json::object();
    for (const auto& [column, value] : run.labels) labels[column] = value;
    return labels;
  }

  Json record(const PlannedRun& run, Session& session, const Json& metrics, const Json& outputs, const std::string& started, bool own_peak) {
    Json record = {{"schema", kRecordSchema}, {"name", plan_.name}, {"run", run.name}, {"hash", hashes_[at_]},
                   {"baseline", run.baseline}, {"noise", run.noise}, {"labels", labels_of(run)}, {"model", plan_.model}, {"model_sha256", model_hash_}, {"config", Json::parse(run.config_json)}, {"seed", plan_.seed},
                   {"repeat", plan_.repeat}, {"tasks", plan_.tasks}, {"paths", session.paths()}};
    record["environment"] = {{"host", environment_.host}, {"os", environment_.os}, {"cpu", environment_.cpu}, {"cores", environment_.cores},
                             {"threads", working_threads(session)}, {"version", environment_.version},
                             {"build_id", environment_.build_id}, {"commit", environment_.commit}, {"sources", environment_.sources},
                             {"started", started},
                             {"peak_rss_of", own_peak ? "this run" : "the process so far"}};
    if (const std::string emulated = emulated_device(session); !emulated.empty()) {
      record["environment"]["emulated"] = emulated;
      record["environment"]["emulated_speed"] = kEmulatedSpeed;
    }
    if (calibrations_ && session.device().is_host()) {
      const int threads = session.host().concurrency();
      record["environment"]["calibration"] = calibration_summary(calibrations_->of(threads), threads);
    }
    record["evaluation"] = Json::object();
    if (plan_.scores_text())
      record["evaluation"] = {{"text", plan_.evaluation.text}, {"text_sha256", inputs_.text.sha256},
                              {"protocol", inputs_.protocol.name}, {"window", inputs_.protocol.window}, {"windows", windows_of(run)},
                              {"first_scored", inputs_.protocol.first_scored},
                              {"bos", inputs_.text.bos >= 0 ? "first of each window" : "none"}, {"scores", "scores/" + scores_hash(run) + ".bin"}};
    if (plan_.has("throughput")) record["evaluation"]["prefill_tokens"] = inputs_.prefill_tokens;
    if (run.noise && plan_.scores_text()) record["evaluation"]["batch_split"] = batch_split_of(run);
    if (plan_.decodes())
      record["evaluation"].update({{"prompts", plan_.evaluation.prompts}, {"prompts_sha256", inputs_.prompts_hash},
                                   {"max_tokens", plan_.evaluation.max_tokens}});
    record["weights"] = formats_by_name(session.tensor_paths());
    if (needs_walk(run.config)) record["quantization"] = quantization_json(session.quantization());
    record["metrics"] = metrics;
    if (!outputs.is_null()) record["outputs"] = outputs;
    return record;
  }

  // --- quality

  std::string hidden_path() const { return folder_.scores_path(identity_hash(quality_identity(plan_.runs[0])), ".hidden"); }

  /// The noise of quality is looked for on a share of the text: it is nothing, or it shows in the first windows already.
  std::int64_t windows_of(const PlannedRun& run) const { return run.noise ? (inputs_.windows + kNoiseShare - 1) / kNoiseShare : inputs_.windows; }
  std::int64_t batch_split_of(const PlannedRun& run) const { return other_batch_split(run.config.max_batched_tokens, inputs_.protocol.window); }

  void add_quality(const PlannedRun& run, Session& session, Json& metrics) {
    const auto scores = scores_of(run, &session);
    const auto baseline = run.baseline ? scores : scores_of(plan_.runs[0], nullptr);
    if (plan_.has("perplexity") && !run.noise) add_perplexity(metrics, scores, plan_.seed);
    if (plan_.has("perplexity")) add_perplexity_ratio(metrics, scores, first_windows(baseline, scores.windows), plan_.seed);
    if (plan_.has("divergence")) add_divergence(metrics, scores, plan_.seed);
  }

  /// From the run's file, or computed; `session` null: one is built when it is needed.
  TokenScores scores_of(const PlannedRun& run, Session* session) {
    const auto path = folder_.scores_path(scores_hash(run), ".bin");
    if (!scores_are_whole(path)) write_scores(path, score_run(run, session ? *session : *build(run)));
    return read_scores(path);
  }

  TokenScores score_run(const PlannedRun& run, Session& session) {
    ScoreOptions options;
    options.windows = windows_of(run);
    options.progress = [&](std::int64_t done) { tell("scoring", 0.4 + 0.6 * static_cast<double>(done) / static_cast<double>(options.windows)); };
    auto model = scored_model(session);
    // The baseline is compared with itself through the same file: its row shows what that costs.
    const bool own_baseline = run.baseline || run.noise;
    auto baseline_session = own_baseline || !plan_.has("divergence") ? nullptr : build(plan_.runs[0]);
    const auto baseline = baseline_session ? scored_model(*baseline_session) : model;
    if (run.noise) model.max_batched_tokens = batch_split_of(run);
    if (!plan_.has("divergence")) return score(model, inputs_.text, inputs_.protocol, options);
    if (!std::filesystem::exists(hidden_path())) keep_hidden(baseline);
    const auto hidden = HiddenFile::open(hidden_path(), baseline.hidden_size);
    options.baseline = &baseline;
    options.baseline_hidden = &hidden;
    return score(model, inputs_.text, inputs_.protocol, options);
  }

  void keep_hidden(const ScoredModel& baseline) {
    tell("the baseline's hidden states", 0.4);
    auto file = HiddenFile::create(hidden_path(), baseline.hidden_size);
    keep_hidden_states(baseline, inputs_.text, inputs_.protocol, inputs_.windows, file, [this] { progress_.between_steps(); });
    file.finish();
  }

  const Plan& plan_;
  std::shared_ptr<const ModelFile> file_;
  ExperimentOptions options_;
  Progress& progress_;
  Environment environment_;
  RecordFolder folder_;
  TimingsFile timings_;
  ExperimentInputs inputs_;
  std::string model_hash_;
  std::optional<Calibrations> calibrations_;  ///< where speeds are measured
  std::vector<std::string> hashes_;  ///< of the plan's runs
  std::set<std::string> finished_;   ///< of these, the ones with a record and its scores
  std::set<std::string> noted_;      ///< what quantising had to say, once each
  std::size_t at_ = 0;               ///< the run in work
  std::int64_t missing_ = 0, measured_ = 0;  ///< runs without a record at the start; those of them that have one now
  double timed_ = 0;                 ///< those of them whose speed is known
};

}  // namespace

std::vector<Json> run_experiment(const Plan& plan, std::shared_ptr<const ModelFile> file, const ExperimentOptions& options, Progress& progress) {
  return Experiment(plan, std::move(file), options, progress).run();
}

}  // namespace patchbay
