// patchbay report FOLDER...: the table of an experiment, or of several in one, made again from their records.
//
// --json: {"sources": [{"folder", "note", "planned", "left_out"}], "records": [{"folder", ..the record}]}.
// With --against each record has "against": {"words", "run", "hash", "scores"} too, and metrics against_NAME.
#include "experiment/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "experiment/against.h"
#include "experiment/record_set.h"
#include "json_text.h"
#include "report_files.h"

namespace patchbay::app {
namespace {

Json as_json(const RecordSet& set) {
  Json json = {{"sources", Json::array()}, {"records", Json::array()}};
  for (const auto& source : set.sources)
    json["sources"].push_back({{"folder", source.folder}, {"note", source.note}, {"planned", source.planned}, {"left_out", source.left_out}});
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    Json record = {{"folder", set.sources[set.source_of[i]].folder}};
    record.update(set.records[i]);
    json["records"].push_back(std::move(record));
  }
  return json;
}

}  // namespace

int report(const ReportOptions& options) {
  if (options.by_kind && !options.html.empty()) throw Error("--by-kind", "the page has no table by kind", "--csv, --markdown, --json or none");
  check_targets(options.csv, options.html);
  auto set = read_report_set(options.folders);
  if (options.by_kind) set = by_kind(set);
  if (options.against) set = against(set, *options.against);
  if (!options.csv.empty()) write_csv(set, options.csv);
  if (!options.html.empty())
    if (const auto remark = write_html(set, options.html); !remark.empty()) fmt::print(stderr, "{}: no plots. {}\n", options.html, remark);
  if (options.json)
    fmt::print("{}\n", json_text(as_json(set)));
  else if (options.markdown)
    fmt::print("{}", report_markdown(set));
  else
    fmt::print("{}", report_text(set, unicode_terminal(), terminal_columns(STDOUT_FILENO)));
  return 0;
}

}  // namespace patchbay::app
