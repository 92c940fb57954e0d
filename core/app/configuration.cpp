#include "configuration.h"

#include <algorithm>
#include <filesystem>

#include "common.h"
#include "config.h"
#include "experiment/plan.h"
#include "experiment/record_set.h"
#include "experiment/run_reference.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

constexpr std::string_view kModelKey = "model=";

/// The place in a reference where the name of a file or folder that is there ends (it may hold colons itself); npos: nothing is there.
std::size_t end_of_file_name(const std::string& text) {
  std::error_code ignored;
  for (auto end = text.size(); end != std::string::npos && end > 0; end = text.rfind(':', end - 1))
    if (std::filesystem::exists(text.substr(0, end), ignored)) return end;
  return std::string::npos;
}

Configuration from_settings(const std::string& text, const std::vector<std::string>& common, const std::string& model) {
  Configuration result{text, model, {}, {}};
  std::vector<std::string> assignments = common;
  for (std::string& one : split_assignments(text == "defaults" ? "" : text)) {
    if (one.starts_with(kModelKey)) result.model = one.substr(kModelKey.size());
    else assignments.push_back(std::move(one));
  }
  result.config = run_config(assignments, 0);
  return result;
}

/// `wanted`: a run as run_reference.h has it, or "" for the baseline.
Configuration from_experiment(const std::string& text, const std::string& file, const std::string& wanted, const std::vector<std::string>& common,
                              const std::string& model) {
  const Plan plan = read_plan(parse_yaml_file(file), file, common);
  std::vector<NamedRun> runs;
  for (const PlannedRun& run : plan.runs) runs.push_back({std::ssize(runs) + 1, run.name, {}, run.labels, run.noise});
  const auto found = wanted.empty() ? 0 : find_run(wanted, runs, escaped(text, 200));  // the baseline is the first
  return {text, model.empty() ? plan.model : model, {}, plan.runs[found].config};
}

Configuration from_record(const std::string& text, const std::vector<std::string>& common, const std::string& model) {
  const auto record = find_record(text).record;
  const auto config = record.find("config");
  if (config == record.end()) throw Error(printable(text), "the record does not say its settings");
  Settings settings = parse_yaml(config->dump(), printable(text));  // JSON is YAML
  for (const std::string& assignment : common) apply_assignment(settings, assignment);
  const bool own = model.empty();
  return {text, own ? record.value("model", "") : model, own ? record.value("model_sha256", "") : "", read_run_config(settings)};
}

}  // namespace

Configuration read_configuration(const std::string& text, const std::vector<std::string>& common, const std::string& model) {
  if (text == "defaults") return from_settings(text, common, model);
  if (const auto end = end_of_file_name(text); end != std::string::npos) {
    const std::string file = text.substr(0, end);
    if (!file.ends_with(".yaml") && !file.ends_with(".yml")) return from_record(text, common, model);
    return from_experiment(text, file, end < text.size() ? text.substr(end + 1) : "", common, model);
  }
  if (text.find('=') != std::string::npos) return from_settings(text, common, model);
  throw Error(text.empty() ? "\"\"" : escaped(text, 200), "names no configuration: it is no setting, and there is no such file or folder", kConfigurationForms);
}

std::vector<std::string> split_assignments(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'') quote = c;
    else if (c == '[' || c == '{') ++depth;
    else if (c == ']' || c == '}') --depth;
    if (c == ' ' && depth <= 0 && quote == 0) parts.emplace_back();
    else parts.back() += c;
  }
  std::erase(parts, "");
  return parts;
}

}  // namespace patchbay::app
