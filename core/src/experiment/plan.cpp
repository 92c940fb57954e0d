#include "experiment/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "config.h"
#include "engine/cost_model.h"
#include "engine/model_spec.h"
#include "experiment/inputs.h"
#include "experiment/sweep.h"
#include "experiment/text_table.h"
#include "files.h"
#include "patchbay/plugin.h"
#include "quantize/calibration_tokens.h"
#include "session.h"
#include "settings_reader.h"
#include "utf8.h"

namespace patchbay {
namespace {

const std::vector<std::string> kTasks = {"perplexity", "divergence", "generation", "throughput", "memory"};
constexpr std::size_t kLongestName = 200;

const Settings& required(const Settings& yaml, const char* key) {
  const auto* value = yaml.find(key);
  if (!value) throw Error(join_where(yaml.where, key), "missing key");
  return *value;
}

/// A name becomes a folder and a line of the terminal: no path, no control character.
std::string read_name(const Settings& value) {
  const auto name = read_text(value);
  const auto refuse = [&](const std::string& problem) { return Error(value.where, "bad name: " + problem, "letters, digits, - _ . and spaces"); };
  if (const auto fault = fault_of_name(name); !fault.empty()) throw refuse(fault);
  if (name.size() > kLongestName) throw refuse(fmt::format("{} bytes are more than {}", name.size(), kLongestName));
  if (name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos) throw refuse("it is a path");
  return name;
}

/// A YAML file from elsewhere may not write wherever it likes.
std::string read_out(const Settings& value) {
  const auto out = read_text(value);
  const std::filesystem::path path(out);
  const auto refuse = [&](const std::string& problem) {
    return Error(value.where, problem, "a folder below the current one", "or say it on the command line: --out FOLDER");
  };
  if (out.empty()) throw refuse("bad path: it is empty");
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.is_absolute() || climbs) throw refuse("the path '" + printable(out) + "' leads outside");
  return out;
}

std::uint64_t read_seed(const Settings& value) {
  const auto& text = value.text;
  std::uint64_t seed = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool plain = value.kind == Settings::Kind::scalar && !value.quoted && !text.empty();
  if (plain && code == std::errc() && end == text.data() + text.size()) return seed;
  return static_cast<std::uint64_t>(read_integer(value, 0, std::numeric_limits<std::int64_t>::max(), "0 to 18446744073709551615"));
}

std::vector<std::string> read_tasks(const Settings& value) {
  if (value.kind != Settings::Kind::list) throw Error(value.where, "is no list", fmt::format("[{}]", fmt::join(kTasks, ", ")));
  if (value.items.empty()) throw Error(value.where, "no task: there would be nothing to measure", fmt::format("{}", fmt::join(kTasks, ", ")));
  std::vector<std::string> tasks;
  for (const auto& item : value.items) {
    auto task = read_choice(item, kTasks);
    if (std::find(tasks.begin(), tasks.end(), task) != tasks.end()) throw Error(item.where, "the task " + task + " stands here twice");
    tasks.push_back(std::move(task));
  }
  return tasks;
}

/// Where there is something to compare with the baseline, unless said otherwise.
bool read_noise(const Settings* value, const Plan& plan) {
  if (!value) return plan.runs.size() > 1 && plan.measures_noise();
  const bool wanted = read_boolean(*value);
  if (wanted && !plan.measures_noise())
    throw Error(value->where, "none of the tasks has noise", "one of perplexity, divergence, throughput", "add a task, or leave noise out");
  return wanted;
}

/// The baseline once more, in its place as the second run.
void add_noise_run(Plan& plan) {
  auto again = plan.runs[0];
  again.baseline = false;
  again.noise = true;
  again.name = "baseline again";
  plan.runs.insert(plan.runs.begin() + 1, std::move(again));
}

std::string find_data(const std::string& file, const std::string& yaml_path) {
  namespace fs = std::filesystem;
  if (fs::exists(file) || fs::path(file).is_absolute() || yaml_path.empty()) return file;
  for (auto folder = fs::absolute(yaml_path).lexically_normal().parent_path();; folder = folder.parent_path()) {
    if (fs::exists(folder / file)) return (folder / file).string();
    if (folder == folder.parent_path()) return file;
  }
}

EvaluationSettings read_evaluation(const Settings* value, const std::string& yaml_path) {
  EvaluationSettings evaluation;
  read_settings(value, "evaluation", [&](Fields& fields) { evaluation.visit(fields); });
  evaluation.text = find_data(evaluation.text, yaml_path);
  evaluation.prompts = find_data(evaluation.prompts, yaml_path);
  return evaluation;
}

/// The calibration's files where the YAML's are looked for; the record keeps them as they are written.
void find_calibration(CalibrationSettings& calibration, const std::string& yaml_path) {
  if (const auto text = calibration.text_path(); !text.empty()) calibration.text = find_data(text, yaml_path);
  if (!calibration.prompts.empty()) calibration.prompts = find_data(calibration.prompts, yaml_path);
}

/// sweep.AXIS=values: an axis's name is a dotted path and stays one key.
void assign_axis(Settings& yaml, const std::string& assignment, const std::string& path) {
  Settings parsed;
  parsed.kind = Settings::Kind::map;
  apply_assignment(parsed, assignment);
  const std::string axis = path.substr(std::string("sweep.").size());
  const Settings values = *find_path(parsed, path);
  auto sweep = std::find_if(yaml.entries.begin(), yaml.entries.end(), [](const auto& entry) { return entry.first == "sweep"; });
  if (sweep == yaml.entries.end()) {
    yaml.entries.emplace_back("sweep", *parsed.find("sweep"));
    sweep = yaml.entries.end() - 1;
    sweep->second.entries.clear();
  }
  std::erase_if(sweep->second.entries, [&](const auto& entry) { return entry.first == axis; });
  sweep->second.entries.emplace_back(axis, values);
}

std::vector<std::string> base_keys() {
  std::vector<std::string> keys = {"threads", "gpu_layers"};  // what the defaults do not state
  const auto defaults = effective_settings(RunConfig{});
  for (const auto& [key, value] : defaults.entries) keys.push_back(key);
  return keys;
}

/// A key that is neither of the experiment nor of its base: both are named, since either may be meant.
void refuse_unknown_key(const std::string& key, const std::string& path) {
  auto known = kExperimentKeys;
  for (auto& each : base_keys())
    if (std::find(known.begin(), known.end(), each) == known.end()) known.push_back(std::move(each));
  if (std::find(known.begin(), known.end(), key) != known.end()) return;
  const auto near = suggestion(key, known);
  throw Error("command line: " + printable(path), "unknown setting", fmt::format("{}", fmt::join(known, ", ")),
              near.empty() ? "" : "did you mean " + near + "?");
}

/// key=value of the command line: a key of the experiment, or else of its base.
void apply_assignments(Settings& yaml, std::span<const std::string> assignments) {
  refuse_repeated(assignments);
  for (const auto& assignment : assignments) {
    const std::string path = assignment.substr(0, assignment.find('=')), key = path.substr(0, path.find('.'));
    if (path.starts_with("sweep.")) {
      assign_axis(yaml, assignment, path);
      continue;
    }
    if (std::find(kExperimentKeys.begin(), kExperimentKeys.end(), key) != kExperimentKeys.end()) {
      apply_assignment(yaml, assignment);
      continue;
    }
    if (const auto* sweep = yaml.find("sweep"))
      for (const auto& [axis, values] : sweep->entries)
        if ((axis + ".").starts_with(path + ".") || (path + ".").starts_with(axis + "."))
          throw Error("command line: " + path, "the sweep sets " + axis, {}, "change it there: sweep." + axis + "=[...]");
    if (assignment.find('=') != std::string::npos && !key.empty()) refuse_unknown_key(key, path);
    apply_assignment(yaml, "base." + assignment);
  }
}

/// Makes the runs of one experiment, the baseline first.
class RunMaker {
 public:
  RunMaker(const Settings& yaml, Settings base) : base_(std::move(base)) {
    if (const auto* sweep = yaml.find("sweep")) {
      axes_ = read_sweep(*sweep, base_keys());
      sweep_where_ = sweep->where;
    }
    for (const auto& axis : axes_) columns_.push_back(axis.name);
    baseline_ = yaml.find("baseline");
    if (baseline_ && baseline_->kind != Settings::Kind::map) throw Error(baseline_->where, "is no map", "key: value pairs that change base");
    if (baseline_) for (const auto& [path, value] : baseline_->entries) add_columns(path, value);
  }

  std::vector<PlannedRun> runs() {
    std::vector<PlannedRun> runs;
    std::vector<std::size_t> at(axes_.size(), 0);
    do {
      Settings settings = base_;
      std::vector<std::string> labels;
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        const auto& value = axes_[a].values[at[a]];
        for (const auto& [path, setting] : value.sets) override_path(settings, path, setting);
        labels.push_back(value.label);
      }
      runs.push_back(make(settings, labels));
    } while (next(at));
    refuse_equal(runs);
    put_baseline_first(runs);
    drop_equal_columns(runs);
    return runs;
  }

 private:
  /// A column for what only the baseline sets, unless an axis covers it.
  void add_columns(const std::string& path, const Settings& value) {
    if (is_merged(value)) {
      for (const auto& [key, entry] : value.entries) add_columns(path + "." + key, entry);
      return;
    }
    for (const auto& column : columns_)
      if ((path + ".").starts_with(column + ".") || (column + ".").starts_with(path + ".")) return;
    columns_.push_back(path);
  }

  /// The last axis turns fastest.
  bool next(std::vector<std::size_t>& at) const {
    for (std::size_t a = axes_.size(); a-- > 0;) {
      if (++at[a] < axes_[a].values.size()) return true;
      at[a] = 0;
    }
    return false;
  }

  /// `labels` of the axes may be empty: then they are read off the settings.
  PlannedRun make(const Settings& settings, const std::vector<std::string>& labels) const {
    PlannedRun run;
    run.config = read_run_config(settings);
    auto effective = effective_settings(run.config);
    if (run.config.threads > 0) set_path(effective, "threads", plain_settings(std::to_string(run.config.threads)));
    run.config_json = to_json(effective);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool known = i < labels.size();
      run.labels.emplace_back(columns_[i], known ? labels[i] : label_at(settings, effective, columns_[i]));
    }
    return run;
  }

  std::string label_at(const Settings& settings, const Settings& effective, const std::string& path) const {
    const auto* value = find_path(settings, path);
    const auto axis = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.name == path; });
    if (axis != axes_.end() && value)
      for (const auto& choice : axis->values)
        if (choice.sets.size() == 1 && to_json(choice.sets[0].second) == to_json(*value)) return choice.label;
    if (!value) value = find_path(effective, path);
    if (value && axis != axes_.end())
      if (auto label = default_label(settings, *value, *axis); !label.empty()) return label;
    // What has no such setting is known by the name that stands above it: weights: none has no weights.format.bits.
    for (auto above = path; !value && above.find('.') != std::string::npos;) {
      above.resize(above.rfind('.'));
      value = find_path(settings, above);
    }
    return value ? short_text(*value) : "-";
  }

  /// How the axis calls a value that nobody wrote; "" where it has none such: the default is not to look like another setting.
  static std::string default_label(const Settings& settings, const Settings& value, const Axis& axis) {
    for (const auto& choice : axis.values) {
      if (choice.sets.size() != 1) continue;
      Settings written = settings;
      override_path(written, axis.name, choice.sets[0].second);
      try {
        const auto effective = effective_settings(read_run_config(written));
        const auto* same = find_path(effective, axis.name);
        if (same && to_json(*same) == to_json(value)) return choice.label;
      } catch (const Error&) {
        continue;  // these settings cannot have it
      }
    }
    return {};
  }

  void refuse_equal(const std::vector<PlannedRun>& runs) const {
    std::map<std::string, const PlannedRun*> seen;
    for (const auto& run : runs) {
      const auto [other, is_new] = seen.emplace(run.config_json, &run);
      if (!is_new)
        throw Error(sweep_where_, fmt::format("two runs are the same: {} and {}", line(*other->second), line(run)), {},
                    "remove a value, or set the keys that matter together as one axis of maps");
    }
  }

  void put_baseline_first(std::vector<PlannedRun>& runs) {
    auto found = runs.begin();
    if (baseline_) {
      Settings settings = base_;
      for (const auto& [path, value] : baseline_->entries) override_path(settings, path, value);
      auto baseline = make(settings, {});
      found = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.config_json == baseline.config_json; });
      if (found == runs.end()) found = runs.insert(runs.begin(), std::move(baseline));
    }
    found->baseline = true;
    std::rotate(runs.begin(), found, found + 1);
  }

  static void drop_equal_columns(std::vector<PlannedRun>& runs) {
    for (std::size_t c = runs[0].labels.size(); c-- > 0;) {
      const bool equal = std::all_of(runs.begin(), runs.end(), [&](const auto& run) { return run.labels[c] == runs[0].labels[c]; });
      if (equal) for (auto& run : runs) run.labels.erase(run.labels.begin() + static_cast<std::ptrdiff_t>(c));
    }
    for (auto& run : runs) run.name = line(run);
  }

  static std::string line(const PlannedRun& run) {
    std::vector<std::string> parts;
    for (const auto& [column, value] : run.labels) parts.push_back(column + "=" + value);
    return parts.empty() ? "base" : fmt::format("{}", fmt::join(parts, ", "));
  }

  Settings base_;
  const Settings* baseline_ = nullptr;
  std::vector<std::string> columns_;
  std::vector<Axis> axes_;
  std::string sweep_where_;
};

}  // namespace

void EvaluationSettings::visit(Fields& f) {
  constexpr std::int64_t kMany = 1 << 30;
  f.text("text", text, {"file scored by perplexity and divergence"});
  f.choice("protocol", protocol, {"patchbay", "llama.cpp"}, {"which tokens of a window are scored"});
  f.integer("window", window, 4, kMany, {"length of one window", "token"});
  f.integer("chunks", chunks, 0, kMany, {"windows scored; 0: all"});
  f.text("prompts", prompts, {"JSON lines with kind and prompt, decoded by generation and throughput"});
  f.integer("prompt_count", prompt_count, 0, kMany, {"prompts taken, from each kind in turn; 0: all"});
  f.integer("max_tokens", max_tokens, 1, kMany, {"decoded per prompt at most", "token"});
  f.integer("prefill_tokens", prefill_tokens, 1, kMany, {"length of the timed prefill", "token"});
}

bool Plan::has(std::string_view task) const { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); }

namespace {

/// Every message about an experiment names its file, but those about the command line.
Error in_file(const Error& error, const std::string& path) {
  const bool placed = path.empty() || error.where().find(printable(path)) != std::string::npos || error.where().starts_with("command line");
  return placed ? error : error.at(printable(path));
}

Plan read_plan_of(Settings yaml, const std::string& path, std::span<const std::string> assignments) {
  apply_assignments(yaml, assignments);
  // A key whose lines are all comments is one that is not there.
  std::erase_if(yaml.entries, [](const auto& entry) {
    const bool is_map = entry.first == "base" || entry.first == "sweep" || entry.first == "baseline" || entry.first == "evaluation";
    return is_map && entry.second.kind == Settings::Kind::null;
  });
  refuse_unknown(yaml, "experiment", kExperimentKeys);
  Plan plan;
  plan.path = path;
  plan.yaml_json = to_json(yaml);
  plan.name = read_name(required(yaml, "name"));
  plan.model = read_text(required(yaml, "model"));
  if (plan.model.empty()) throw Error(required(yaml, "model").where, "missing value", "a name in configs/models/, or a model file");
  if (const auto* note = yaml.find("note")) plan.note = read_text(*note);
  plan.note.erase(plan.note.find_last_not_of(" \n") + 1);  // `note: |` ends in a line end
  if (const auto* seed = yaml.find("seed")) plan.seed = read_seed(*seed);
  if (const auto* repeat = yaml.find("repeat")) plan.repeat = static_cast<int>(read_integer(*repeat, 1, 1000));
  const auto* tasks = yaml.find("tasks");
  plan.tasks = tasks ? read_tasks(*tasks) : kTasks;
  const auto* out = yaml.find("out");
  plan.out = out ? read_out(*out) : "results/" + plan.name;
  plan.evaluation = read_evaluation(yaml.find("evaluation"), path);

  Settings base;
  base.kind = Settings::Kind::map;
  base.where = join_where(yaml.where, "base");
  if (const auto* written = yaml.find("base"); written) base = *written;
  if (base.kind != Settings::Kind::map) throw Error(base.where, "is no map", "settings as in docs/measuring.md");
  if (const auto* device = yaml.find("device")) set_path(base, "device", *device);
  plan.runs = RunMaker(yaml, std::move(base)).runs();
  for (auto& run : plan.runs) find_calibration(run.config.calibration, path);
  plan.noise = read_noise(yaml.find("noise"), plan);
  if (plan.noise) add_noise_run(plan);
  return plan;
}

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

}  // namespace

Plan read_plan(Settings yaml, const std::string& path, std::span<const std::string> assignments) {
  try {
    return read_plan_of(std::move(yaml), path, assignments);
  } catch (const Error& error) {
    throw in_file(error, path);
  }
}

std::shared_ptr<const ModelFile> check_plan(Plan& plan) {
  try {
    return check_against_model(plan);
  } catch (const Error& error) {
    throw in_file(error, plan.path);
  }
}

Plan plan_file(const std::string& path, std::span<const std::string> assignments) {
  auto plan = read_plan(parse_yaml_file(path), path, assignments);
  check_plan(plan);
  return plan;
}

std::string plan_json(const Plan& plan) {
  nlohmann::ordered_json json = {{"name", plan.name}, {"note", plan.note}, {"model", plan.model}, {"model_path", plan.model_path},
                                 {"out", plan.out},   {"tasks", plan.tasks}, {"seed", plan.seed}, {"repeat", plan.repeat}, {"noise", plan.noise},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const auto& run : plan.runs) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::object();
    for (const auto& [column, value] : run.labels) labels[column] = value;
    json["runs"].push_back({{"name", run.name}, {"baseline", run.baseline}, {"noise", run.noise}, {"labels", labels},
                            {"config", nlohmann::ordered_json::parse(run.config_json)}, {"seed", plan.seed}});
    if (const auto& sizes = run.predicted)
      json["runs"].back()["predicted"] = {{"weights_bytes", sizes->weights_bytes}, {"bits_per_weight", sizes->bits_per_weight},
                                          {"kv_bytes_per_token", sizes->kv_bytes_per_token}};
    if (run.predicted && run.predicted->device_bytes > 0) {
      json["runs"].back()["predicted"]["device_weights_bytes"] = run.predicted->device_bytes;
      json["runs"].back()["predicted"]["activations"] = run.predicted->activations;
    }
  }
  return json.dump(2);
}

std::string plan_table(const Plan& plan) {
  TextTable table;
  table.header = {"run"};
  for (const auto& [column, value] : plan.runs[0].labels) table.header.push_back(column);
  const auto labels = table.header.size();
  const bool devices = std::ranges::any_of(plan.runs, [](const PlannedRun& run) { return run.predicted && run.predicted->device_bytes > 0; });
  for (const char* title : {"weights\nMiB", "bits/\nweight", "KV B/\ntoken"}) table.header.emplace_back(title);
  if (devices) table.header.insert(table.header.end(), {"on device\nMiB", "activa-\ntions"});
  table.header.emplace_back("");
  table.right.assign(table.header.size(), false);
  std::fill_n(table.right.begin() + static_cast<std::ptrdiff_t>(labels), devices ? 4 : 3, true);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    std::vector<std::string> row = {std::to_string(i + 1)};
    for (const auto& [column, value] : plan.runs[i].labels) row.push_back(value);
    const auto& sizes = plan.runs[i].predicted;
    row.push_back(sizes ? fmt::format("{:.1f}", static_cast<double>(sizes->weights_bytes) / (1 << 20)) : "-");
    row.push_back(sizes ? fmt::format("{:.2f}", sizes->bits_per_weight) : "-");
    row.push_back(sizes ? std::to_string(sizes->kv_bytes_per_token) : "-");
    if (devices) row.push_back(sizes ? fmt::format("{:.1f}", static_cast<double>(sizes->device_bytes) / (1 << 20)) : "-");
    if (devices) row.push_back(sizes ? sizes->activations : "-");
    row.push_back(plan.runs[i].baseline ? "baseline" : plan.runs[i].noise ? "baseline again: noise" : "");
    table.rows.push_back(std::move(row));
  }
  return table.text(true);
}

}  // namespace patchbay
