/// @file profile_case.h
/// What `patchbay profile` runs: one kernel of a technique at a shape, or a model's steps, on the checked emulator under the profiler.
#pragma once
#include <string>
#include <vector>

#include "commands.h"
#include "experiment/experiment.h"
#include "gpu/counters.h"

namespace patchbay::app {

/// One profiled piece of work.
struct ProfiledCase {
  std::string title;      ///< what was computed, at which shape
  std::string path;       ///< what ran, as records say it
  double flops = 0;       ///< operations that the work takes by definition; 0: not stated
  double bytes = 0;       ///< its operands and results, each once; 0: not stated
  std::vector<gpu::KernelCounters> launches;
};

/// The case of options.technique, a plugin of a kind that has kernels. @throws Error for what does not exist or does not fit.
ProfiledCase profile_technique(const ProfileOptions& options);
/// Prefill and decode steps of options.model.
std::vector<ProfiledCase> profile_model(const ProfileOptions& options, Progress& progress);

}  // namespace patchbay::app
