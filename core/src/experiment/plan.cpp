#include "experiment/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "config.h"
#include "experiment/plan_assignments.h"
#include "experiment/plan_check.h"
#include "experiment/plan_runs.h"
#include "experiment/sweep.h"
#include "patchbay/plugin.h"
#include "settings_reader.h"

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
  plan.runs = make_runs(yaml, std::move(base));
  for (auto& run : plan.runs) find_calibration(run.config.calibration, path);
  plan.noise = read_noise(yaml.find("noise"), plan);
  if (plan.noise) add_noise_run(plan);
  return plan;
}

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

}  // namespace patchbay
