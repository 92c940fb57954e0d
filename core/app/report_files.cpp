#include "report_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "common.h"
#include "experiment/report.h"
#include "experiment/report_html.h"
#include "json_text.h"
#include "output_file.h"
#include "resources.h"

namespace patchbay::app {
namespace {

namespace fs = std::filesystem;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

constexpr const char* kHowToGetPlots =
    "The plots are drawn by matplotlib, which was not found: scripts/setup_python.sh installs it into .venv (or set PATCHBAY_PYTHON to a "
    "Python that has it); then run `patchbay report FOLDER --html FILE` again. The tables hold what the plots would show.";

std::string plot_script() {
  for (const auto& place : resource_places("python/plot_report.py"))
    if (fs::is_regular_file(place)) return place.string();
  return "";
}

/// PATCHBAY_PYTHON, else that of the virtual environment beside the script's folder, else the system's.
std::string python_for(const std::string& script) {
  if (const char* given = std::getenv("PATCHBAY_PYTHON"); given && *given) return given;
  const auto environment = fs::path(script).parent_path().parent_path() / ".venv/bin/python";
  return fs::exists(environment) ? environment.string() : "python3";
}

/// What `program script` writes when it reads `input`; "" when it fails.
std::string output_of(const std::string& program, const std::string& script, const std::string& input) {
  const File in(std::tmpfile(), std::fclose), out(std::tmpfile(), std::fclose);
  if (!in || !out || std::fwrite(input.data(), 1, input.size(), in.get()) != input.size() || std::fflush(in.get()) != 0) return "";
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string words[] = {program, "-I", script};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return "";
  std::string text;
  char buffer[1 << 16];
  std::rewind(out.get());
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, out.get())) > 0;) text.append(buffer, n);
  return text;
}

/// Fills in the pictures; false where they cannot be drawn.
bool draw(std::vector<Plot>& plots) {
  const auto script = plot_script();
  if (script.empty()) return false;
  const auto request = json_text(plots_json(plots));
  const auto drawn = Json::parse(output_of(python_for(script), script, request), nullptr, false);
  if (!drawn.is_object()) return false;
  for (auto& plot : plots)
    if (drawn.contains(plot.name) && drawn[plot.name].is_string()) plot.svg = drawn[plot.name].get<std::string>();
  return true;
}

/// A folder of results holds reports under their two names; all else there is the experiment's.
void check_target(const std::string& path, const char* name, const char* beginning, const char* what) {
  if (path.empty()) return;
  std::error_code ignored;
  const auto folder = fs::weakly_canonical(path, ignored).parent_path();
  const bool holds_results = fs::exists(folder / "records.jsonl", ignored) || fs::exists(folder / "experiment.json", ignored);
  if (holds_results && fs::path(path).filename() != name)
    throw Error(printable(path), "lies among the records of an experiment", fmt::format("a file elsewhere, or {} there", name));
  refuse_other_file(path, beginning, what);
}

}  // namespace

void check_targets(const std::string& csv, const std::string& html) {
  if (!csv.empty() && fs::path(csv).lexically_normal() == fs::path(html).lexically_normal()) throw Error("--html", "is the file of --csv too", "another file");
  check_target(csv, "report.csv", kCsvBeginning, "a CSV file of patchbay report");
  check_target(html, "report.html", kPageBeginning, "a page of patchbay report");
}

void write_csv(const RecordSet& set, const std::string& path) { write_output_file(path, report_csv(set)); }

std::string write_html(const RecordSet& set, const std::string& path) {
  auto plots = report_plots(set);
  const std::string remark = plots.empty() || draw(plots) ? "" : kHowToGetPlots;
  write_output_file(path, report_html(set, plots, remark));
  return remark;
}

}  // namespace patchbay::app
