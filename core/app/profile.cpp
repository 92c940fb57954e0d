// patchbay profile: what CUDA kernels do on the emulator, counted, and the time that a GPU needs for it at least.
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <filesystem>

#include "access_picture.h"
#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "experiment/text_table.h"
#include "output_file.h"
#include "profile_report.h"
#include "progress.h"

namespace patchbay::app {
namespace {

constexpr const char* kSvgStart = "<svg xmlns=";
constexpr const char* kPageStart = "<!DOCTYPE html><title>patchbay profile</title>";

bool is_page(const std::string& file) { return file.ends_with(".html"); }

void check_options(const ProfileOptions& options) {
  if (options.technique.empty() == options.model.model.empty())
    throw Error("profile", "takes a technique or --model, one of them", "formats/NAME, attention/NAME, backends/NAME", "`patchbay list kernels` shows them");
  if (!options.model.model.empty() && (!options.kernel.empty() || !options.op.empty()))
    throw Error(options.op.empty() ? "--kernel" : "--op", "is for one technique; a model's kernels are chosen by its settings", {}, "weights.kernel=NAME, attention.kernel=NAME, backend.kernels.OPERATION=NAME");
  if (options.picture.empty() && !options.line.empty()) throw Error("--line", "says what the picture shows", {}, "give --picture too");
  if (options.picture.empty()) return;
  if (!is_page(options.picture) && !options.picture.ends_with(".svg")) throw Error("--picture", "'" + printable(options.picture) + "' says no form that is known", "a name in .svg or .html");
  refuse_other_file(options.picture, is_page(options.picture) ? kPageStart : kSvgStart, "a picture of patchbay profile");
}

/// What ncu measured: of the file given, or of the one that is there for this GPU.
NcuFigures ncu_of(const ProfileOptions& options) {
  if (!options.ncu.empty()) return NcuFigures(options.ncu);
  std::string name;
  for (const char c : gpu::gpu_model(options.gpu).name) name += c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string file = "docs/measurements/ncu_" + name + ".json";
  return std::filesystem::exists(file) ? NcuFigures(file) : NcuFigures();
}

struct Line { const gpu::KernelCounters* kernel; const gpu::SiteCounters* site; };

/// The lines that can be drawn, each kernel's costliest first.
std::vector<Line> lines_of(const std::vector<gpu::KernelCounters>& kernels, const std::string& wanted) {
  std::vector<Line> lines;
  std::string known;
  for (const auto& kernel : kernels)
    for (const auto& site : kernel.sites) {
      if (site.what == gpu::Instruction::constant_load) continue;
      if (wanted.empty() || site.line == wanted) lines.push_back({&kernel, &site});
      if (known.find(site.line) == std::string::npos) known += (known.empty() ? "" : ", ") + site.line;
    }
  if (lines.empty()) throw Error("--line", wanted.empty() ? "no kernel touched memory" : "no access at '" + printable(wanted) + "'", known);
  return lines;
}

/// Draws, and says on stderr what: stdout may be JSON.
void write_picture(const ProfileOptions& options, const std::vector<ProfiledCase>& cases) {
  std::vector<gpu::KernelCounters> launches;
  for (const ProfiledCase& profiled : cases) launches.insert(launches.end(), profiled.launches.begin(), profiled.launches.end());
  const auto kernels = gpu::merge_launches(launches);
  const auto lines = lines_of(kernels, options.line);
  if (!is_page(options.picture)) {
    write_output_file(options.picture, access_svg(*lines[0].site, lines[0].kernel->kernel));
    return fmt::print(stderr, "{}: the costliest request at {}, {}\n", printable(options.picture), lines[0].site->line, lines[0].kernel->kernel);
  }
  constexpr std::size_t kMostPictures = 24;
  std::string page = std::string(kPageStart) + "<meta charset=\"utf-8\">\n";
  for (std::size_t i = 0; i < lines.size() && i < kMostPictures; ++i) page += access_svg(*lines[i].site, lines[i].kernel->kernel) + "<br>\n";
  write_output_file(options.picture, page);
  fmt::print(stderr, "{}: the costliest requests of {} of {}\n", printable(options.picture), std::min(kMostPictures, lines.size()), counted(static_cast<std::int64_t>(lines.size()), "line"));
}

/// The cases; where memory is short, what makes them smaller.
std::vector<ProfiledCase> profiled(const ProfileOptions& options) {
  constexpr const char* kSmaller = "smaller --rows, --cols, --tokens, --context or --prompt";
  try {
    TerminalProgress progress(false);
    return options.model.model.empty() ? std::vector{profile_technique(options)} : profile_model(options, progress);
  } catch (const Error& error) {
    if (error.where().find("memory") == std::string::npos) throw;
    throw Error(error.where(), error.problem(), error.allowed(), kSmaller);
  } catch (const std::bad_alloc&) {
    throw Error("memory", "is short", "", kSmaller);
  }
}

}  // namespace

int profile(const ProfileOptions& given) {
  ProfileOptions options = given;
  if (options.technique.find('=') != std::string::npos) {  // the first key=value, where --model stands for a technique
    options.model.assignments.insert(options.model.assignments.begin(), options.technique);
    options.technique.clear();
  }
  check_options(options);
  const ProfileView view{gpu::gpu_model(options.gpu), options.registers, options.model.model.empty(), NvccReport::beside_plugins(), ncu_of(options)};
  const auto cases = profiled(options);
  if (!options.picture.empty()) write_picture(options, cases);
  if (options.model.json) fmt::print("{}\n", json_text(profile_json(cases, view)));
  else fmt::print("{}", profile_text(cases, view, unicode_terminal(), terminal_columns(STDOUT_FILENO)));
  return 0;
}

}  // namespace patchbay::app
