/// @file sweep.h
/// The axes of an experiment: what each value of a sweep sets.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "patchbay/params.h"

namespace patchbay {

/// More runs than this in one experiment are a slip of the pen: 10 axes of 10 values are 10^10 runs.
inline constexpr std::int64_t kMaxRuns = 10000;
/// The keys of an experiment's file.
inline const std::vector<std::string> kExperimentKeys = {"name", "note", "model", "device", "base", "sweep", "baseline",
                                                         "tasks", "seed", "repeat", "noise", "out", "evaluation"};

/// Dotted paths and what stands there.
using Overrides = std::vector<std::pair<std::string, Settings>>;

struct AxisValue {
  std::string label;  ///< as the report shows it
  Overrides sets;
};
/// One key of `sweep`. A list of values for a dotted path; or {from, to, step}; or a map that names its values. A key that is no
/// setting (none of `base_keys`) is a free name for values that are maps of dotted paths: they set several keys together.
struct Axis {
  std::string name;
  std::vector<AxisValue> values;
};

/// @throws Error for an empty axis, a range that never ends or never reaches its end, the same value twice, or over kMaxRuns runs.
PATCHBAY_API std::vector<Axis> read_sweep(const Settings& sweep, std::span<const std::string> base_keys);

/// Whether a value is merged into what stands at its path: a map without `type`.
PATCHBAY_API bool is_merged(const Settings& value);
/// Sets `value` at `path`. What is not merged replaces what stands there.
PATCHBAY_API void override_path(Settings& base, const std::string& path, const Settings& value);
/// What stands at a dotted path; null when nothing does.
PATCHBAY_API const Settings* find_path(const Settings& map, std::string_view path);
/// Of key=value: a key that is given twice would hide the first. @throws Error.
PATCHBAY_API void refuse_repeated(std::span<const std::string> assignments);
/// What is wrong with a name of an experiment or a value: people read it in a line of a table, and type it; "" for nothing.
PATCHBAY_API std::string fault_of_name(std::string_view name);
/// A value in few words: "rtn", "int_grouped bits=4 group_size=64".
PATCHBAY_API std::string short_text(const Settings& value);

}  // namespace patchbay
