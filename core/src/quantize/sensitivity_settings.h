/// @file sensitivity_settings.h
/// What `weights.bits_by_sensitivity` says: of which formats each matrix gets one, by how much the model minds, under a budget.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "patchbay/params.h"

namespace patchbay {

struct PATCHBAY_API SensitivitySettings {
  double budget = 0;                   ///< bits per weight on average of all that is chosen for; 0: no such choice
  std::vector<PluginSpec> candidates;  ///< formats; a number n in YAML is weights.format with bits: n
  std::string measure = "error", per = "matrix";
  std::int64_t tokens = 1024;

  bool on() const { return budget > 0; }
  void visit(Fields& fields);
};

}  // namespace patchbay
