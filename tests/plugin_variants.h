// Every plugin found of a kind, with its defaults and with each value that its parameters list: what a suite runs over.
#pragma once
#include <string>
#include <vector>

#include "registry.h"

namespace patchbay::test {

/// Settings {key: value}, values as one would write them in YAML.
inline PluginSpec spec_of(const std::string& type, const std::vector<std::pair<std::string, std::string>>& values = {}) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  const auto scalar = [](const std::string& text) {
    Settings value;
    value.kind = Settings::Kind::scalar;
    value.text = text;
    return value;
  };
  for (const auto& [key, value] : values) settings->entries.emplace_back(key, scalar(value));
  return {type, settings};
}

struct Variant {
  PluginSpec spec;
  std::string label;  ///< "speculative accept=sample"
};

/// Choices and booleans with each value, numbers at both bounds; what the plugin's own rules refuse is left out.
inline std::vector<Variant> variants(const std::string& kind) {
  std::vector<Variant> all;
  for (const std::string& name : Registry::instance().names(kind)) {
    all.push_back({spec_of(name), name});
    for (const ParamInfo& param : Registry::instance().describe(Registry::instance().find(kind, name))) {
      std::vector<std::string> values = param.choices;
      if (param.type == "boolean") values = {"true", "false"};
      if (const auto to = param.range.find(" to "); param.type == "integer" || param.type == "real") {
        values = {param.range.substr(0, to), param.range.substr(to + 4)};
      }
      for (const std::string& value : values) {
        const PluginSpec spec = spec_of(name, {{param.name, value}});
        try {
          make_plugin(kind, spec);
        } catch (const Error&) {
          continue;
        }
        all.push_back({spec, name + " " + param.name + "=" + value});
      }
    }
  }
  return all;
}

}  // namespace patchbay::test
