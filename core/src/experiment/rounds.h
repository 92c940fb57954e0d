/// @file rounds.h
/// Speeds of several runs, measured in turn.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiment/measure.h"
#include "experiment/session_pool.h"

namespace patchbay {

/// At most so many runs are measured in turn, the baseline beside them: more would wait longer for their round to be finished and
/// lose more of it to a kill.
inline constexpr std::size_t kRunsPerSeries = 15;

struct RoundRun {
  std::size_t run = 0;  ///< index in the plan
  std::string hash;
};

/// told(round, visits done, visits of a round); a round is kept in the file when its last visit is done.
using RoundProgress = std::function<void(int round, std::size_t visit, std::size_t visits)>;

/// In each round every run is visited once: warmed up, then timed. So a machine that slows down does so for all of them alike, and
/// speeds of one round can be paired. The order is drawn anew from the seed for each round. `runs` begins with the baseline. Rounds
/// that the file has already are not measured again.
PATCHBAY_API void measure_rounds(TimingsFile& file, const std::vector<RoundRun>& runs, int rounds, SessionPool& pool, const Workload& work,
                                 const RoundProgress& told);

/// What names a set of runs in the file.
PATCHBAY_API std::string series_of(const std::vector<RoundRun>& runs, int rounds);

}  // namespace patchbay
