/// @file record_set.h
/// Records read back for a report, a comparison or a look at tokens: checked first, since they may come from anywhere.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiment/records.h"

namespace patchbay {

/// Records of this layout are written and read; a record without `schema` is of layout 1.
inline constexpr int kRecordSchema = 1;

/// What reports rely on: the keys that must be there, and the types of those that may be.
/// @throws Error naming `where` and the key.
PATCHBAY_API void check_record(const Json& record, const std::string& where);

struct RecordSource {
  std::string folder;         ///< as given
  std::string note;           ///< the experiment's, "" when unknown
  Json yaml;                  ///< the experiment as it was read, null when unknown
  std::int64_t planned = 0;   ///< runs of the experiment; 0: unknown
  std::int64_t left_out = 0;  ///< older records of the same runs, and records of runs that the experiment no longer has
};

struct RecordSet {
  std::vector<RecordSource> sources;
  std::vector<Json> records;           ///< checked; the sources' one after the other, each in its plan's order
  std::vector<std::size_t> source_of;  ///< per record
  std::vector<std::int64_t> numbers;   ///< per record: as the source's plan counts its runs; without a plan, as they stand here
};

/// Of each folder (or records.jsonl) the newest record of each run that its experiment.json plans, by the hash that stands there;
/// without that file, the newest of each run's name. @throws Error for a folder without records, one given twice, or a record that is not sound.
PATCHBAY_API RecordSet read_record_set(std::span<const std::string> folders);

/// The same for one report: every difference from the baseline has its NAME_p_adjusted, all of the set being one family.
PATCHBAY_API RecordSet read_report_set(std::span<const std::string> folders);

/// The same runs, once for each kind of prompt with the figures of that kind alone, kind after kind; adjusted as read_report_set does.
/// @throws Error when no record has figures of two kinds or more.
PATCHBAY_API RecordSet by_kind(const RecordSet& set);

/// The same records for one table. Where the sources differ, columns `experiment`, `host` or else `folder` are put before the
/// labels; a setting that another folder varies is filled in from the record's own configuration.
PATCHBAY_API std::vector<Json> merged_records(const RecordSet& set);

struct NamedRun;
/// Each record as it may be named (run_reference.h).
PATCHBAY_API std::vector<NamedRun> named_runs(const RecordSet& set);

struct FoundRecord {
  Json record;
  std::string folder;
};
/// FOLDER (its baseline, or its only run) or FOLDER:RUN (run_reference.h). @throws Error listing what there is.
PATCHBAY_API FoundRecord find_record(const std::string& reference);

/// Leaves of a JSON tree with their dotted paths; a list is a leaf. {"a": {"b": 1}} -> {("a.b", "1")}; text without quotes.
PATCHBAY_API std::vector<std::pair<std::string, std::string>> flattened(const Json& tree);

struct Difference {
  std::string path, first, second;  ///< "-" where one has no such setting
};
PATCHBAY_API std::vector<Difference> differences(const Json& first, const Json& second);

}  // namespace patchbay
