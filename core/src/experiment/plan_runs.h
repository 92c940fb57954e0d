/// @file plan_runs.h
/// base, sweep and baseline of an experiment multiplied out into its runs.
#pragma once
#include <vector>

#include "experiment/plan.h"

namespace patchbay {

/// The runs of one experiment, the baseline first. `base`: what each run's settings begin as. @throws Error.
std::vector<PlannedRun> make_runs(const Settings& yaml, Settings base);

}  // namespace patchbay
