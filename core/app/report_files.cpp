#include "report_files.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "experiment/files.h"
#include "experiment/report.h"
#include "experiment/report_html.h"
#include "json_text.h"
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

}  // namespace

void write_csv(const RecordSet& set, const std::string& path) { write_file_atomically(path, report_csv(set)); }

std::string write_html(const RecordSet& set, const std::string& path) {
  auto plots = report_plots(set);
  const std::string remark = plots.empty() || draw(plots) ? "" : kHowToGetPlots;
  write_file_atomically(path, report_html(set, plots, remark));
  return remark;
}

}  // namespace patchbay::app
