// patchbay new KIND NAME: a folder for a new plugin, made from the kind's template (the plugin whose CMakeLists.txt says TEMPLATE).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "files.h"
#include "output_file.h"
#include "plugin_template.h"
#include "registry.h"

namespace patchbay::app {
namespace {

namespace fs = std::filesystem;

/// What is built or installed with this program lies above it.
fs::path prefix() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory()) result.push_back(entry.path());
  std::ranges::sort(result);
  return result;
}

/// The template's folder: share/patchbay/templates/KIND/ holds one. `kind` may be a singular.
fs::path template_folder(const std::string& kind) {
  const fs::path templates = prefix() / "share/patchbay/templates";
  std::vector<std::string> kinds;
  for (const fs::path& folder : folders_in(templates)) {
    kinds.push_back(folder.filename().string());
    const std::vector<fs::path> inside = folders_in(folder);
    if (names_kind(kind, kinds.back()) && !inside.empty()) return inside.front();
  }
  if (kinds.empty()) throw Error(templates.string(), "no templates here", "", "build or install patchbay as a whole");
  const std::string near = suggestion(kind, kinds);
  throw Error("new " + printable(kind), "unknown kind of plugin", fmt::format("{}", fmt::join(kinds, ", ")),
              near.empty() ? "" : "did you mean " + near + "?");
}

/// Folder, file, library and `type` in YAML are called so.
void check_name(const std::string& kind, const std::string& name) {
  constexpr std::size_t kLongest = 40;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const bool good = !name.empty() && name.size() <= kLongest && name[0] >= 'a' && name[0] <= 'z' && std::ranges::all_of(name, plain);
  if (!good) {
    throw Error("new: name '" + printable(name.substr(0, 60)) + "'", "is no name of a plugin",
                fmt::format("a-z, 0-9 and _, a letter first, {} characters at most", kLongest));
  }
  const std::vector<std::string> names = Registry::instance().names(kind);
  if (std::ranges::find(names, name) != names.end()) {
    throw Error("new: " + kind + "/" + name, "there is such a plugin", "a name of its own", "patchbay list " + kind + " shows all");
  }
}

Folder read_folder(const fs::path& folder) {
  Folder files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().filename().string()] = read_whole_file(entry.path().string());
  }
  return files;
}

/// All of it or nothing: what was made goes away where a file cannot be written, folders above included.
void write_folder(const fs::path& folder, const Folder& files) {
  fs::path made = folder;
  while (made.has_parent_path() && made.parent_path() != made && !fs::exists(made.parent_path())) made = made.parent_path();
  try {
    fs::create_directories(folder);
    for (const auto& [name, text] : files) write_output_file((folder / name).string(), text);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(made, ignored);
    throw;
  }
}

/// The program that tests every plugin of a kind.
std::string conformance_test(const std::string& kind) {
  const bool is_policy = kind == "kv_prefix" || kind == "kv_retention";
  return "test_conformance_" + (is_policy ? "kv_policies" : kind);
}

void print_next_steps(const fs::path& folder, const std::string& reference, bool in_tree) {
  const std::string place = printable(folder.string());
  if (in_tree) {
    const std::string kind = reference.substr(0, reference.find('/'));
    fmt::print("\nBuild it, look at it, test it as every plugin of its kind is tested:\n"
               "  cmake --preset release && cmake --build build/release --target patchbay plugins {0}\n  build/release/bin/patchbay describe {1}\n"
               "  build/release/bin/{0}\n", conformance_test(kind), reference);
    return;
  }
  // A build folder holds no CMake package: that comes with the installation.
  const bool installed = fs::exists(prefix() / "lib/cmake/patchbay");
  const std::string patchbay = installed ? printable(prefix().string()) : "$HOME/patchbay";
  fmt::print("\nBuild it against an installed patchbay, test it, look at it:\n");
  if (!installed) fmt::print("  cmake --install {} --prefix {}\n", printable(prefix().string()), patchbay);
  fmt::print("  cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1}\n  cmake --build {0}/build && ctest --test-dir {0}/build\n"
             "  export PATCHBAY_PLUGIN_PATH={2}/build/lib/patchbay/plugins\n  {1}/bin/patchbay describe {3}\n",
             place, patchbay, printable(fs::absolute(folder).lexically_normal().string()), reference);
}

}  // namespace

int new_plugin(const NewOptions& options) {
  const fs::path source = template_folder(options.kind);
  const Naming naming{source.parent_path().filename().string(), source.filename().string(), options.name};
  check_name(naming.kind, naming.to);
  const fs::path folder = fs::path(options.dir) / naming.kind / naming.to;
  if (fs::exists(folder)) throw Error(printable(folder.string()), "is there already", "", "choose another name or --dir");
  const bool in_tree = fs::exists((fs::absolute(options.dir) / "..").lexically_normal() / "cmake/patchbay_add_plugin.cmake");
  const Folder files = renamed_plugin(read_folder(source), naming, in_tree);
  write_folder(folder, files);
  fmt::print("{}, made from {}/{}:\n", printable(folder.string()), naming.kind, naming.from);
  for (const auto& [name, text] : files) fmt::print("  {}\n", name);
  print_next_steps(folder, naming.kind + "/" + naming.to, in_tree);
  return 0;
}

}  // namespace patchbay::app
