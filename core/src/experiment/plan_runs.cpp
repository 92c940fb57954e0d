#include "experiment/plan_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config.h"
#include "experiment/plan_assignments.h"
#include "experiment/sweep.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

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

std::vector<PlannedRun> make_runs(const Settings& yaml, Settings base) { return RunMaker(yaml, std::move(base)).runs(); }

}  // namespace patchbay
