/// @file experiment.h
/// One experiment from its plan to its records: build each run, measure it, keep the result.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiment/metrics.h"
#include "experiment/plan.h"

namespace patchbay {

/// Told how far an experiment is. All in one thread. doing() may throw to stop it: what is finished is kept.
class PATCHBAY_API Progress {
 public:
  virtual ~Progress();
  /// `fraction` of what has to be measured: kept runs do not count.
  virtual void doing(double fraction, const std::string& what) = 0;
  /// A run is measured and kept; with it so much is done.
  virtual void finished(double fraction, const std::string& line);
  virtual void note(const std::string& line) = 0;
  /// Called between the steps of a model, also while time is taken: it must cost nothing. May throw, as doing() may.
  virtual void between_steps() {}
};

struct ExperimentOptions {
  std::string out;      ///< folder; "": the plan's
  bool resume = false;
  int threads = 0;      ///< 0: all cores
  bool recalibrate = false;  ///< measure the machine's limits even where a calibration is kept
};

/// Runs what is not in the folder yet and returns the records of all runs, in the plan's order.
/// @throws Error naming the run; finished records stay.
PATCHBAY_API std::vector<Json> run_experiment(const Plan& plan, std::shared_ptr<const ModelFile> file, const ExperimentOptions& options,
                                              Progress& progress);

}  // namespace patchbay
