/// @file report.h
/// report(records) -> table: built from records alone, so that it can be made again at any time.
#pragma once
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

struct RecordSet;

/// Columns that say where a row is from or what of it is shown, not how it was set: the baseline again has them too. In this order
/// merged_records and by_kind put them before the labels.
inline constexpr const char* kSourceColumns[] = {"experiment", "host", "folder", "prompts"};

/// The cells of the table, for whatever shows them.
struct ReportGrid {
  std::vector<std::string> header;             ///< a title may have two lines
  std::vector<std::vector<std::string>> rows;  ///< one per record
  std::size_t labels = 0;                      ///< so many columns say where the runs differ; the others are figures
};
PATCHBAY_API ReportGrid report_grid(std::span<const nlohmann::ordered_json> records);
/// The records but those of the baseline measured again, which is no run of its own.
PATCHBAY_API std::vector<nlohmann::ordered_json> without_noise(std::vector<nlohmann::ordered_json> records);
/// How the figures of the table came about, for a reader who sees nothing else.
PATCHBAY_API std::string report_legend(std::span<const nlohmann::ordered_json> records);
/// A second table (report_roofline.cpp): predicted speeds and the share of them that was measured; empty where no record has any.
PATCHBAY_API ReportGrid roofline_grid(std::span<const nlohmann::ordered_json> records);
PATCHBAY_API std::string roofline_legend(std::span<const nlohmann::ordered_json> records);
/// Both as text.
PATCHBAY_API std::string roofline_table(std::span<const nlohmann::ordered_json> records, bool utf8, std::size_t columns = 0);
/// What stands at a path of a record; null: nothing.
PATCHBAY_API const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& record, std::initializer_list<const char*> path);
/// Half the width of a metric's interval, where the record has one.
PATCHBAY_API std::optional<double> half_interval(const nlohmann::ordered_json& record, const std::string& metric);
/// The text at a path of a record, "?" where there is none; `common`: what all records have there, or "several".
PATCHBAY_API std::string record_text(const nlohmann::ordered_json& record, std::initializer_list<const char*> path);
PATCHBAY_API std::string common_text(std::span<const nlohmann::ordered_json> records, std::initializer_list<const char*> path);
/// What a legend says of the records, each different text once, in their order: the first few, and how many more.
PATCHBAY_API std::string each_once(std::span<const nlohmann::ordered_json> records, const std::function<std::string(const nlohmann::ordered_json&)>& text,
                                   const std::string& between);
/// "2 threads", of a record; "64 threads on 2 cores".
PATCHBAY_API std::string threads_text(const nlohmann::ordered_json& record);

/// One row per run: where the runs differ, then each metric with its interval; a legend below; then the roofline's table, where there
/// is one. utf8, columns: see TextTable.
PATCHBAY_API std::string report_table(std::span<const nlohmann::ordered_json> records, bool utf8, std::size_t columns = 0);

/// The table of one folder or of several, and what a reader must know of them: the rule of the baselines, what is left out or missing.
PATCHBAY_API std::string report_text(const RecordSet& set, bool utf8, std::size_t columns = 0);

/// So begins every CSV file.
inline constexpr const char* kCsvBeginning = "experiment,folder,run,hash,baseline,noise";
/// One row per run with all digits: experiment, folder, run, hash, baseline, noise, labels (label.NAME), every metric, with NAME_low and
/// NAME_high where it has an interval; repeats (NAME_values) separated by spaces. RFC 4180, without a value: empty.
PATCHBAY_API std::string report_csv(const RecordSet& set);

/// The same tables and what a reader must know of them, as Markdown.
PATCHBAY_API std::string report_markdown(const RecordSet& set);

/// What the baselines of several folders have in common, in one line; "" for one folder.
PATCHBAY_API std::string baseline_rule(const RecordSet& set);
/// Lines about what is left out or not finished yet.
PATCHBAY_API std::string source_notes(const RecordSet& set);

/// A value and half the width of its interval, cut to the digits that the interval supports: "28.8 ±1.3".
PATCHBAY_API std::string plus_minus(double value, double half_width);

}  // namespace patchbay
