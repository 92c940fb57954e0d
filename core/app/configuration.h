/// @file configuration.h
/// A configuration as a user names it: settings, a run of an experiment, or a record of a finished run.
#pragma once
#include <string>
#include <vector>

#include "run_config.h"

namespace patchbay::app {

/// What `bisect --help` says of A and B.
inline constexpr const char* kConfigurationForms =
    "\"key=value ...\" (settings in one argument, model=FILE among them), defaults, FILE.yaml[:RUN] (a run of an experiment, else its baseline), or FOLDER[:RUN] (a finished "
    "run, else its baseline)";

struct Configuration {
  std::string text;          ///< as written
  std::string model;         ///< file or name; "" where the configuration names none
  std::string model_sha256;  ///< of a finished run; else ""
  RunConfig config;
};

/// Reads one. `common` are settings of every side; what `text` itself assigns wins over them, an experiment's and a record's own do not.
/// `model`, unless "", stands for the model of sides that do not say model=FILE. @throws Error that lists the forms.
Configuration read_configuration(const std::string& text, const std::vector<std::string>& common, const std::string& model);

/// "a=1 b={c: 2, d: 3}" to its assignments: cut at spaces outside brackets and quotes.
std::vector<std::string> split_assignments(const std::string& text);

}  // namespace patchbay::app
