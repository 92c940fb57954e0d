#include "usage_errors.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "common.h"
#include "config.h"

namespace patchbay::app {

std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  std::string all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  if (argc < 2) return "a command is missing; one of: " + all + "; patchbay --help says what they do";
  const std::string given = argv[1];
  if (given.starts_with("-") || std::find(names.begin(), names.end(), given) != names.end()) return {};
  const std::string near = suggestion(given, names);
  return printable(given) + ": unknown command; one of: " + all + "; " +
         (near.empty() ? "patchbay --help says what they do" : "did you mean " + near + "?");
}

namespace {

/// The first argument that the chosen command still needs: its name and what is meant; "" for none.
std::string missing_argument(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string name = option->get_name();
    if (!name.starts_with("-")) std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    return name + " is missing: " + option->get_description();
  }
  return {};
}

/// The first argument that the chosen command has no use for: "-resume" may have been meant as --resume.
std::string unexpected_argument(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) return {};
  const std::string& given = rest.front();
  if (!given.starts_with("-")) return "'" + given + "' is one argument too many";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string near = suggestion("--" + given.substr(std::min(given.find_first_not_of('-'), given.size())), names);
  return given + ": unknown option" + (near.empty() ? "" : "; did you mean " + near + "?");
}

/// The first option that was given several times and takes one value: "--tokens: is given 2 times".
std::string repeated_option(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::size_t most = static_cast<std::size_t>(option->get_items_expected_max());
    if (option->count() > most) return option->get_name() + " is given " + std::to_string(option->count()) + " times and takes one value";
  }
  return {};
}

}  // namespace

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "patchbay", words;
  for (const CLI::App* command : app.get_subcommands()) {
    name += " " + command->get_name();
    if (error.get_name() == "ArgumentMismatch") words = repeated_option(*command);
    if (error.get_name() == "RequiredError") words = missing_argument(*command);
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) words = unexpected_argument(app, *command);
  }
  std::fprintf(stderr, "%s: %s; %s --help says more\n", name.c_str(), printable(words.empty() ? error.what() : words).c_str(), name.c_str());
  return kUsage;
}

}  // namespace patchbay::app
