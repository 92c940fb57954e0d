/// @file record_diff.h
/// Two records side by side: where their settings and machines differ, and by how much their metrics do.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/evaluation.h"
#include "experiment/metrics.h"
#include "experiment/record_set.h"

namespace patchbay {

struct MetricDifference {
  std::string name;
  std::optional<double> first, second;
  std::optional<Interval> first_interval, second_interval;
};

/// Paired per token over one text: second minus first.
struct PairedScores {
  std::int64_t tokens = 0;
  double nll = 0;           ///< mean difference, nats per token
  std::optional<Interval> nll_interval;  ///< 95%, blocks of kBlockTokens resampled, the same for both; none: one block only
  std::int64_t better = 0;  ///< tokens that the second gives more probability
};

struct RecordDiff {
  std::vector<Difference> settings, origin, environment;  ///< origin: model, seed, evaluation
  std::vector<MetricDifference> metrics;
  std::optional<PairedScores> paired;
  std::string unpaired;  ///< why there is no `paired`
};
PATCHBAY_API RecordDiff diff_records(const FoundRecord& first, const FoundRecord& second);

/// As a person reads it; utf8: see TextTable.
PATCHBAY_API std::string diff_text(const RecordDiff& diff, const FoundRecord& first, const FoundRecord& second, bool utf8);
PATCHBAY_API Json diff_json(const RecordDiff& diff, const FoundRecord& first, const FoundRecord& second);

/// The scores file that the record names. @throws Error when it names none, or one outside its folder.
PATCHBAY_API TokenScores scores_of_record(const FoundRecord& found);
/// Why the scores of two records cannot be paired token by token, or "".
PATCHBAY_API std::string unpaired_reason(const Json& first, const Json& second);

}  // namespace patchbay
