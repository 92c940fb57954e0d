/// @file plan_assignments.h
/// key=value of the command line, laid over an experiment before it is read.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "patchbay/params.h"

namespace patchbay {

/// The keys that `base:` may have.
std::vector<std::string> base_keys();
/// key=value of the command line: a key of the experiment, or else of its base. @throws Error.
void apply_assignments(Settings& yaml, std::span<const std::string> assignments);

}  // namespace patchbay
