#include "report_files.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

#include "common.h"
#include "experiment/report.h"
#include "experiment/report_html.h"
#include "json_text.h"
#include "output_file.h"
#include "path_checks.h"
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

/// All that a temporary file holds.
std::string text_of(std::FILE* file) {
  std::string text;
  char buffer[1 << 16];
  std::rewind(file);
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  return text;
}

/// The last line that is not empty: what an interpreter says of its failure.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  return text.substr(text.rfind('\n') + 1);
}

struct Finished {
  bool succeeded = false;
  std::string output, errors;
};

/// Runs `program script`, which reads `input`.
Finished finished(const std::string& program, const std::string& script, const std::string& input) {
  const File in(std::tmpfile(), std::fclose), out(std::tmpfile(), std::fclose), errors(std::tmpfile(), std::fclose);
  if ((!in || !out || !errors) && errno == ENOMEM) throw std::bad_alloc();
  if (!in || !out || !errors || std::fwrite(input.data(), 1, input.size(), in.get()) != input.size() || std::fflush(in.get()) != 0)
    return {false, "", "no temporary file could be written"};
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(errors.get()), STDERR_FILENO);
  std::string words[] = {program, "-I", script};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed == ENOMEM) throw std::bad_alloc();
  if (failed != 0) return {false, "", "it cannot be started: " + std::generic_category().message(failed)};
  const bool waited = ::waitpid(child, &status, 0) == child;
  return {waited && WIFEXITED(status) && WEXITSTATUS(status) == 0, text_of(out.get()), last_line(text_of(errors.get()))};
}

/// Fills in the pictures; what went wrong, or "".
std::string draw(std::vector<Plot>& plots) {
  const auto script = plot_script();
  if (script.empty()) return "python/plot_report.py is not where patchbay looks for it; is the installation complete?";
  const auto python = python_for(script);
  const auto run = finished(python, script, json_text(plots_json(plots)));
  if (!run.succeeded && run.errors.find("matplotlib") != std::string::npos) return kHowToGetPlots;
  const auto drawn = run.succeeded ? Json::parse(run.output, nullptr, false) : Json();
  if (!drawn.is_object())
    return fmt::format("{} could not draw the plots: {}. scripts/setup_python.sh makes a Python that can (or set PATCHBAY_PYTHON to one). The tables "
                       "hold what the plots would show.", printable(python), run.errors.empty() ? "it gave no reason" : printable(run.errors));
  for (auto& plot : plots)
    if (drawn.contains(plot.name) && drawn[plot.name].is_string()) plot.svg = drawn[plot.name].get<std::string>();
  return "";
}

/// A folder of results holds reports under their two names; all else there is the experiment's.
void check_target(const std::string& path, const char* name, const char* beginning, const char* what) {
  if (path.empty()) return;
  output_target(path);  // refuses before the work
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
  const std::string remark = plots.empty() ? "" : draw(plots);
  write_output_file(path, report_html(set, plots, remark));
  return remark;
}

}  // namespace patchbay::app
