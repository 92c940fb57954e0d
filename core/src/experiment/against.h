/// @file against.h
/// The runs of a table against other runs of it than their baseline, paired by token.
#pragma once
#include <string>

#include "experiment/record_set.h"

namespace patchbay {

/// Each record beside the one of its own folder that `wanted` names for it (find_partners): metrics against_NAME take the place of those
/// that are relative to the baseline, and `against` says {"words": wanted, "run", "hash", "scores"} of the other run, null where there is
/// none. The baselines measured again are left out: they are controls of the baseline. All differences are one family.
/// @throws Error when no such run is there, or several are; when scores are missing, or of other tokens than the other run's.
PATCHBAY_API RecordSet against(const RecordSet& set, const std::string& wanted);

/// Whether the records stand against other runs than their baseline.
PATCHBAY_API bool is_against(std::span<const Json> records);
/// How a column's title calls the other run, in few words: "rtn", "run 5"; "" where the records stand against their baseline.
PATCHBAY_API std::string against_title(std::span<const Json> records);
/// What `against_` figures are, for a legend.
PATCHBAY_API std::string against_legend(std::span<const Json> records);

}  // namespace patchbay
