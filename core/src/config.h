/// @file config.h
/// Strict YAML: text to Settings, or an Error with file, line and key. The only home of yaml-cpp.
#pragma once
#include <string>
#include <string_view>

#include "patchbay/params.h"

namespace patchbay {

/// Parses one YAML document whose top level is a map. Refuses what yaml-cpp lets through: see config.cpp.
PATCHBAY_API Settings parse_yaml(std::string_view text, const std::string& file_name);
PATCHBAY_API Settings parse_yaml_file(const std::string& path);

/// A value as given on the command line for the setting `path`: a flow list, flow map or quoted text is YAML, else plain text.
PATCHBAY_API Settings parse_value(std::string_view text, const std::string& path);

/// Sets one "a.b.c=value" (value: a YAML scalar, flow list or flow map) in a map. Intermediate scalars become {type: scalar}
/// (so `kv_store=paged kv_store.format=int8` works, as does `kv_store: paged` in a file with `kv_store.format=int8` given).
PATCHBAY_API void apply_assignment(Settings& map, std::string_view assignment);
/// The same with a parsed value; path is dotted.
PATCHBAY_API void set_path(Settings& map, std::string_view path, const Settings& value);

/// Settings as canonical JSON text: keys sorted, numbers and booleans typed as YAML's core schema reads them.
PATCHBAY_API std::string to_json(const Settings& settings);

/// The nearest of `candidates` to a misspelt name, or "" when none is near.
PATCHBAY_API std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace patchbay
