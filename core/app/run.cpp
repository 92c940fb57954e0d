// patchbay run: an experiment from its YAML to a table.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config.h"
#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "experiment/record_set.h"
#include "experiment/report.h"
#include "report_files.h"

namespace patchbay::app {
namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// A bar that redraws itself on a terminal; elsewhere one line per finished run.
class TerminalProgress : public Progress {
 public:
  ~TerminalProgress() override { clear(); }

  void doing(double fraction, const std::string& what) override {
    if (!terminal_) return;
    constexpr int kWidth = 24;
    const int filled = std::clamp(static_cast<int>(fraction * kWidth), 0, kWidth);
    const double left = fraction > 0.01 ? seconds() / fraction * (1 - fraction) : 0;
    clear();
    fmt::print(stderr, "[{:#<{}}{:.<{}}] {:>3.0f}% {}{}", "", filled, "", kWidth - filled, 100 * fraction, what.substr(0, 70),
               left > 0 ? fmt::format(", about {} left", minutes(left)) : "");
    std::fflush(stderr);
  }
  void note(const std::string& line) override {
    clear();
    fmt::print(stderr, "{} ({})\n", line, minutes(seconds()));
  }

 private:
  void clear() const { if (terminal_) std::fputs("\r\033[K", stderr); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

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
  TerminalProgress progress;
  const auto records = run_experiment(planned, file, {out, options.resume, options.threads}, progress);
  write_reports(out);
  if (options.json) {
    fmt::print("{}\n", Json{{"out", out}, {"records", records}}.dump());
    return 0;
  }
  progress.note("results in " + out);
  fmt::print("\n{}", report_table(records, ::isatty(STDOUT_FILENO) == 1));
  return 0;
}

}  // namespace patchbay::app
