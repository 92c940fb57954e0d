#include "experiment/rounds.h"

#include <nlohmann/json.hpp>

#include "experiment/records.h"
#include "patchbay/decoder.h"

namespace patchbay {
namespace {

std::vector<RoundRun> in_drawn_order(std::vector<RoundRun> runs, std::uint64_t seed, int round) {
  Rng rng(seed, static_cast<std::uint64_t>(round));
  for (std::size_t left = runs.size(); left > 1; --left) std::swap(runs[left - 1], runs[static_cast<std::size_t>(rng.uniform() * static_cast<double>(left))]);
  return runs;
}

std::vector<std::string> hashes_of(const std::vector<RoundRun>& runs) {
  std::vector<std::string> hashes;
  for (const auto& run : runs) hashes.push_back(run.hash);
  return hashes;
}

}  // namespace

std::string series_of(const std::vector<RoundRun>& runs, int rounds) {
  return identity_hash({{"runs", hashes_of(runs)}, {"rounds", rounds}});
}

void measure_rounds(TimingsFile& file, const std::vector<RoundRun>& runs, int rounds, SessionPool& pool, const Workload& work, const RoundProgress& told) {
  const auto series = series_of(runs, rounds);
  for (int round = static_cast<int>(file.series(series).rounds.size()) + 1; round <= rounds; ++round) {
    std::map<std::string, RunTimes> times;
    for (const auto& run : in_drawn_order(runs, work.seed, round)) {
      const auto tell = [&] { told(round, times.size(), runs.size()); };
      tell();
      pool.visit(run.run, [&](Session& session, bool built) {
        warm_up(session, work, built);
        const auto measured = time_once(session, work, tell);
        times[run.hash] = measured;  // now: it counts the visits
      });
    }
    file.add_round(series, rounds, hashes_of(runs), times);
    told(round, runs.size(), runs.size());
  }
}

}  // namespace patchbay
