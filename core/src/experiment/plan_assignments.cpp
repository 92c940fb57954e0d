#include "experiment/plan_assignments.h"

#include <fmt/format.h>

#include <algorithm>

#include "config.h"
#include "experiment/sweep.h"
#include "run_config.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

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

}  // namespace

std::vector<std::string> base_keys() {
  std::vector<std::string> keys = {"threads", "gpu_layers"};  // what the defaults do not state
  const auto defaults = effective_settings(RunConfig{});
  for (const auto& [key, value] : defaults.entries) keys.push_back(key);
  return keys;
}

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

}  // namespace patchbay
