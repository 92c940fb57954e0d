// patchbay run: an experiment from its YAML to a table.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "experiment/record_set.h"
#include "experiment/report.h"
#include "interrupt.h"
#include "json_text.h"
#include "progress.h"
#include "report_files.h"

namespace patchbay::app {
namespace {

/// A word that a shell reads back as it is.
std::string shell_word(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") == std::string::npos) return text;
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

constexpr const char* kStopping = "\nstopping as soon as the step in work is done; finished runs are kept. Ctrl-C again ends patchbay at once.\n";

/// Between two pieces of work, a Ctrl-C that came meanwhile ends the run; never within a record's write.
class StoppableProgress : public TerminalProgress {
 public:
  using TerminalProgress::TerminalProgress;
  void doing(double fraction, const std::string& what) override {
    throw_if_interrupted();
    TerminalProgress::doing(fraction, what);
  }
  void between_steps() override { throw_if_interrupted(); }
};

std::size_t kept_runs(const std::string& out) {
  const std::string folders[] = {out};
  try {
    return read_record_set(folders).records.size();
  } catch (const Error&) {
    return 0;  // none yet, or all of other settings
  }
}

/// As 128 + the signal, which is how shells say it.
int stopped(const RunOptions& options, const Plan& planned, const std::string& out) {
  std::string again = "patchbay run " + shell_word(options.file);
  for (const auto& assignment : options.assignments) again += " " + shell_word(assignment);
  if (options.threads > 0) again += fmt::format(" --threads {}", options.threads);
  fmt::print(stderr, "stopped: {} of {} runs are finished and kept in {}, and so is every whole round of timings. To go on:\n  {} --out {} --resume\n",
             kept_runs(out), planned.runs.size(), printable(out), printable(again), printable(shell_word(out)));
  return 128 + interrupt_signal();
}

}  // namespace

int run(const RunOptions& options) {
  if (options.dry_run) return plan({options.file, options.assignments, options.json, options.out});
  auto planned = read_plan(parse_yaml_file(options.file), options.file, options.assignments);
  const auto file = check_plan(planned);
  const auto out = options.out.empty() ? planned.out : options.out;
  StoppableProgress progress(options.quiet);
  try {
    const InterruptGuard guard(kStopping);
    run_experiment(planned, file, {out, options.resume, options.threads, options.recalibrate}, progress);
  } catch (const Interrupted&) {
    progress.clear();
    return stopped(options, planned, out);
  }
  const std::string folders[] = {out};
  const auto set = read_report_set(folders);
  write_csv(set, out + "/report.csv");  // beside the records: what spreadsheets and browsers read
  write_html(set, out + "/report.html");
  if (options.json) {
    fmt::print("{}\n", json_text(Json{{"out", out}, {"records", set.records}}));
    return 0;
  }
  progress.note("results in " + out);
  fmt::print("\n{}", report_text(set, unicode_terminal(), terminal_columns(STDOUT_FILENO)));
  return 0;
}

}  // namespace patchbay::app
