// patchbay run: an experiment from its YAML to a table.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "experiment/record_set.h"
#include "experiment/report.h"
#include "progress.h"
#include "report_files.h"

namespace patchbay::app {
namespace {

/// Beside the records: what spreadsheets and browsers read.
void write_reports(const std::string& folder) {
  const std::string folders[] = {folder};
  const auto set = read_record_set(folders);
  write_csv(set, folder + "/report.csv");
  write_html(set, folder + "/report.html");
}

}  // namespace

int run(const RunOptions& options) {
  if (options.dry_run) return plan({options.file, options.assignments, options.json, options.out});
  auto planned = read_plan(parse_yaml_file(options.file), options.file, options.assignments);
  const auto file = check_plan(planned);
  const auto out = options.out.empty() ? planned.out : options.out;
  TerminalProgress progress(options.quiet);
  const auto records = run_experiment(planned, file, {out, options.resume, options.threads}, progress);
  write_reports(out);
  if (options.json) {
    fmt::print("{}\n", Json{{"out", out}, {"records", records}}.dump());
    return 0;
  }
  progress.note("results in " + out);
  fmt::print("\n{}", report_table(records, unicode_terminal(), terminal_columns(STDOUT_FILENO)));
  return 0;
}

}  // namespace patchbay::app
