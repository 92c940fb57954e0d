/// @file command_line.h
/// How commands declare their options: one function per command, in commands_*.cpp.
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "commands.h"

namespace patchbay::app {

/// What the chosen command returned; commands run as callbacks of the parser.
struct Outcome { int code = 0; };

/// Adds a command whose options live as long as the parser: `fill` declares them, `run` gets them when the command is chosen.
template <class Options>
void add(CLI::App& app, Outcome& outcome, const char* name, const char* what, const std::function<void(CLI::App&, Options&)>& fill,
         int (*run)(const Options&)) {
  CLI::App* command = app.add_subcommand(name, what);
  auto options = std::make_shared<Options>();
  fill(*command, *options);
  command->callback([options, run, &outcome] { outcome.code = run(*options); });
}

// Options that several commands have.
CLI::Option* json_flag(CLI::App& command, bool& json);
void assignments(CLI::App& command, std::vector<std::string>& list, const char* what = "Settings, as under base: in YAML (kv_store.format=int8)");
void threads(CLI::App& command, int& count, const char* what = "Threads; 0: all cores");
void model(CLI::App& command, ModelOptions& options);
void token_list(CLI::App& command, std::vector<int>& list);
/// A file or folder. "" is refused: it would be taken for none given.
template <class Text>
CLI::Option* path(CLI::App& command, const char* name, Text& value, const char* what) {
  return command.add_option(name, value, what)->check([](const std::string& text) { return text.empty() ? "is empty; a file's or folder's name" : std::string(); });
}

/// Checked before CLI11 converts: it takes "" as 0, -1 as the largest unsigned number, and what is too large as the largest.
template <class Number>
std::string not_a_number(const std::string& text, Number low = std::numeric_limits<Number>::min(), Number high = std::numeric_limits<Number>::max()) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return {};
  return "'" + text + "' is not a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}
/// The type of the number that an option holds, which may be optional.
template <class T> struct NumberOf { using type = T; };
template <class T> struct NumberOf<std::optional<T>> { using type = T; };
template <class Value, class Number = typename NumberOf<Value>::type>
CLI::Option* number(CLI::App& command, const char* name, Value& value, const char* what, std::type_identity_t<Number> low = std::numeric_limits<Number>::min(),
                    std::type_identity_t<Number> high = std::numeric_limits<Number>::max()) {
  return command.add_option(name, value, what)->check([low, high](const std::string& text) { return not_a_number<Number>(text, low, high); });
}
/// The names that an option knows.
std::function<std::string(const std::string&)> one_of(std::vector<std::string> names);

// commands_plugins.cpp
void add_list(CLI::App& app, Outcome& outcome);
void add_describe(CLI::App& app, Outcome& outcome);
void add_new(CLI::App& app, Outcome& outcome);
// commands_models.cpp
void add_check(CLI::App& app, Outcome& outcome);
void add_inspect(CLI::App& app, Outcome& outcome);
void add_convert(CLI::App& app, Outcome& outcome);
void add_quantize(CLI::App& app, Outcome& outcome);
void add_tokenize(CLI::App& app, Outcome& outcome);
void add_template(CLI::App& app, Outcome& outcome);
// commands_text.cpp
void add_logits(CLI::App& app, Outcome& outcome);
void add_generate(CLI::App& app, Outcome& outcome);
void add_chat(CLI::App& app, Outcome& outcome);
void add_perplexity(CLI::App& app, Outcome& outcome);
// commands_speed.cpp
void add_bench(CLI::App& app, Outcome& outcome);
void add_profile(CLI::App& app, Outcome& outcome);
void add_calibrate(CLI::App& app, Outcome& outcome);
// commands_experiments.cpp
void add_plan(CLI::App& app, Outcome& outcome);
void add_run(CLI::App& app, Outcome& outcome);
void add_report(CLI::App& app, Outcome& outcome);
void add_diff(CLI::App& app, Outcome& outcome);
void add_bisect(CLI::App& app, Outcome& outcome);
void add_tokens(CLI::App& app, Outcome& outcome);

}  // namespace patchbay::app
