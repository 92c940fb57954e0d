#include "experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "config.h"
#include "settings_reader.h"
#include "utf8.h"

namespace patchbay {
namespace {

std::string first_key(std::string_view path) { return std::string(path.substr(0, path.find('.'))); }

bool is_range(const Settings& value) { return value.kind == Settings::Kind::map && (value.find("from") || value.find("to")); }

Settings number(double value, bool whole, const std::string& where) {
  auto result = plain_settings(whole ? fmt::format("{:.0f}", value) : fmt::format("{:.12g}", value));
  result.where = where;
  return result;
}

/// The numbers from, from + step, ... up to and including `to`.
std::vector<Settings> range_values(const Settings& range) {
  refuse_unknown(range, "sweep", std::vector<std::string>{"from", "to", "step"});
  constexpr double kAny = std::numeric_limits<double>::max();
  bool whole = true;
  const auto read = [&](const char* key, bool required) {
    const auto* value = range.find(key);
    if (!value && required) throw Error(join_where(range.where, key), "missing key", "a range is {from, to, step}");
    if (!value) return 1.0;
    whole = whole && scalar_type(*value) == ScalarType::integer;
    return read_real(*value, -kAny, kAny);
  };
  const double from = read("from", true), to = read("to", true), step = read("step", false);
  if (step == 0) throw Error(range.where, "a range with step 0 never ends", "any other step");
  if ((to - from) / step < 0)
    throw Error(range.where, fmt::format("the range from {} to {} by {} never reaches its end", from, to, step), {}, "turn step's sign");
  const double steps = std::floor((to - from) / step + 1e-9);
  if (!(steps < kMaxRuns)) throw Error(range.where, "the range has too many values", fmt::format("at most {} runs", kMaxRuns));
  std::vector<Settings> values;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(steps); ++i)
    values.push_back(number(from + static_cast<double>(i) * step, whole, range.where));
  return values;
}

/// What one value of an axis sets: itself at the axis's path, or, for a free name, each of its entries.
AxisValue axis_value(const std::string& axis, bool free_name, std::string label, const Settings& value) {
  if (!free_name) return {std::move(label), {{axis, value}}};
  AxisValue result{std::move(label), {}};
  for (const auto& [path, setting] : value.entries) result.sets.emplace_back(path, setting);
  return result;
}

/// A free name holds maps; a key that is neither a setting nor holds maps is a misspelt setting.
bool check_free_name(const std::string& axis, const Settings& values, std::span<const std::string> base_keys) {
  if (std::find(base_keys.begin(), base_keys.end(), first_key(axis)) != base_keys.end()) return false;
  const auto is_map = [](const Settings& value) { return value.kind == Settings::Kind::map; };
  const bool maps = values.kind == Settings::Kind::list
                        ? std::all_of(values.items.begin(), values.items.end(), is_map)
                        : !is_range(values) && std::all_of(values.entries.begin(), values.entries.end(),
                                                           [&](const auto& entry) { return is_map(entry.second); });
  if (maps) return true;
  if (const auto key = first_key(axis); std::find(kExperimentKeys.begin(), kExperimentKeys.end(), key) != kExperimentKeys.end())
    throw Error(values.where, printable(axis) + " is one for the whole experiment and cannot be swept",
                fmt::format("settings of base: {}", fmt::join(base_keys, ", ")),
                "run it once for each value, each with its own --out; patchbay report shows several folders in one table");
  const auto near = suggestion(first_key(axis), base_keys);
  throw Error(values.where, "unknown setting '" + first_key(axis) + "'", fmt::format("{}", fmt::join(base_keys, ", ")),
              near.empty() ? "" : "did you mean " + near + "?");
}

Axis read_axis(const std::string& name, const Settings& values, std::span<const std::string> base_keys) {
  if (values.kind == Settings::Kind::scalar || values.kind == Settings::Kind::null)
    throw Error(values.where, "one value where an axis is expected", "a list, {from, to, step}, or a map of named values");
  if (values.items.empty() && values.entries.empty())
    throw Error(values.where, "an axis without values", {}, "give it values, or remove it: as it stands there would be no run");
  const bool free_name = check_free_name(name, values, base_keys);
  Axis axis{name, {}};
  for (const auto& [label, value] : values.entries)
    if (const auto fault = fault_of_name(label); !fault.empty() && !is_range(values))
      throw Error(values.where, "bad name of a value, '" + printable(label) + "': " + fault, "letters, digits and signs on one line");
  const auto add = [&](const std::string& label, const Settings& value) { axis.values.push_back(axis_value(name, free_name, label, value)); };
  if (is_range(values)) for (const auto& value : range_values(values)) add(short_text(value), value);
  else if (values.kind == Settings::Kind::map) for (const auto& [label, value] : values.entries) add(printable(label), value);
  else for (const auto& value : values.items) add(short_text(value), value);

  std::set<std::string> seen;
  for (const auto& value : axis.values) {
    std::string all;
    for (const auto& [path, setting] : value.sets) all += path + "=" + to_json(setting) + "\n";
    if (!seen.insert(all).second)
      throw Error(values.where, "the same value twice: " + value.label, {}, "remove one: two runs would be the same");
  }
  return axis;
}

/// The paths that a value replaces as a whole: those of a map that is merged lie below it.
void add_leaves(const std::string& path, const Settings& value, std::set<std::string>& leaves) {
  if (!is_merged(value)) {
    leaves.insert(path);
    return;
  }
  for (const auto& [key, entry] : value.entries) add_leaves(path + "." + key, entry, leaves);
}

std::set<std::string> leaves_of(const Axis& axis) {
  std::set<std::string> leaves;
  for (const auto& value : axis.values)
    for (const auto& [path, setting] : value.sets) add_leaves(path, setting, leaves);
  return leaves;
}

/// Axes are applied in order: what a later one replaces, an earlier one had better not set. (Below what an earlier one sets it may.)
void refuse_hidden_axes(const std::vector<Axis>& axes, const std::string& where) {
  for (std::size_t later = 1; later < axes.size(); ++later)
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      for (const auto& hidden : leaves_of(axes[earlier]))
        for (const auto& leaf : leaves_of(axes[later]))
          if ((hidden + ".").starts_with(leaf + "."))
            throw Error(where, fmt::format("the axes {} and {} both set {}: the later one would hide the earlier", printable(axes[earlier].name),
                                           printable(axes[later].name), printable(hidden)),
                        "a key in one axis alone", "remove it from one of them, or set both together as one axis of maps");
}

}  // namespace

std::vector<Axis> read_sweep(const Settings& sweep, std::span<const std::string> base_keys) {
  if (sweep.kind != Settings::Kind::map) throw Error(sweep.where, "is no map", "dotted.key: [values]");
  std::vector<Axis> axes;
  double runs = 1;
  for (const auto& [name, values] : sweep.entries) {
    axes.push_back(read_axis(name, values, base_keys));
    runs *= static_cast<double>(axes.back().values.size());
  }
  if (runs > static_cast<double>(kMaxRuns))
    throw Error(sweep.where, fmt::format("the sweep has {:.0f} runs: lists multiply", runs), fmt::format("at most {}", kMaxRuns),
                "split it into several experiments");
  refuse_hidden_axes(axes, sweep.where);
  return axes;
}

void refuse_repeated(std::span<const std::string> assignments) {
  std::set<std::string_view> seen;
  for (const std::string_view assignment : assignments)
    if (const auto key = assignment.substr(0, assignment.find('=')); !seen.insert(key).second)
      throw Error("command line: " + printable(key), "is given twice", "", "give it once");
}

std::string fault_of_name(std::string_view name) {
  if (name.find_first_not_of(' ') == std::string_view::npos) return name.empty() ? "it is empty" : "it is blank";
  return is_plain_text(name) ? "" : "it holds a control character, or one that turns the direction of a line";
}

bool is_merged(const Settings& value) { return value.kind == Settings::Kind::map && !value.find("type") && !value.entries.empty(); }

void override_path(Settings& base, const std::string& path, const Settings& value) {
  if (!is_merged(value)) return set_path(base, path, value);
  for (const auto& [key, entry] : value.entries) override_path(base, path + "." + key, entry);
}

const Settings* find_path(const Settings& map, std::string_view path) {
  const Settings* at = &map;
  while (at && !path.empty()) {
    const auto key = path.substr(0, path.find('.'));
    at = at->find(key);
    path.remove_prefix(std::min(path.size(), key.size() + 1));
  }
  return at;
}

std::string short_text(const Settings& value) {
  std::vector<std::string> words;
  switch (value.kind) {
    case Settings::Kind::null: return "none";
    case Settings::Kind::scalar: return printable(value.text);
    case Settings::Kind::list:
      for (const auto& item : value.items) words.push_back(short_text(item));
      return fmt::format("[{}]", fmt::join(words, ", "));
    case Settings::Kind::map:
      for (const auto& [key, entry] : value.entries) {
        const auto text = short_text(entry);
        words.push_back(key == "type" || entry.kind == Settings::Kind::map ? text : key + "=" + text);
      }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace patchbay
