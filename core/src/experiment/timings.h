/// @file timings.h
/// Times of runs that were measured in turn, round by round, kept in timings.jsonl so that a kill costs the round it hit and no more.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "experiment/metrics.h"

namespace patchbay {

/// One visit to a run in one round.
struct RunTimes {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0, ttft_ms = 0, tpot_ms = 0;
  double busy_share = 0;  ///< of the machine, by others, meanwhile; NaN: unknown
  std::map<std::string, double> decode_tokens_per_s_of{};  ///< by the prompts' kind
};

/// Runs that were measured together: rounds[r][run's hash]. The first run is the one that the others are compared with.
struct Series {
  std::vector<std::string> runs;
  std::vector<std::map<std::string, RunTimes>> rounds;
};

/// The file: one line per finished round, {"series", "host", "round", "rounds", "runs": [..], "times": {hash: {..}}}. Written as records are;
/// the folder's lock covers it.
class PATCHBAY_API TimingsFile {
 public:
  /// Reads what is there of this host and cuts off a torn last line. @throws Error for a line that is no round.
  TimingsFile(std::string path, std::string host);

  /// The finished rounds of a set of runs; `series` is its identity.
  const Series& series(const std::string& series) const;
  void add_round(const std::string& series, int rounds, const std::vector<std::string>& runs, const std::map<std::string, RunTimes>& times);
  /// A series with all its rounds in which the run was measured, the first one; null when there is none.
  const Series* finished(const std::string& run) const;

 private:
  struct Kept {
    Series series;
    int wanted = 0;
  };
  void take(const Json& round, const std::string& where);

  std::string path_, host_;
  std::vector<std::string> order_;
  std::map<std::string, Kept> by_id_;
};

/// What a run's rounds come to: medians with intervals, each value, speeds relative to the series' first run, paired by round
/// (prefill_speed_ratio, decode_speed_ratio, with _ci and _p), and busy_share.
PATCHBAY_API void add_times(Json& metrics, const Series& series, const std::string& run, std::uint64_t seed);
/// decode_tokens_per_s and decode_speed_ratio of the prompts of one kind.
PATCHBAY_API void add_times_of_kind(Json& metrics, const Series& series, const std::string& run, const std::string& kind, std::uint64_t seed);

}  // namespace patchbay
