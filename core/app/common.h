/// @file common.h
/// What several commands do: settings from key=value, a session from a model's name, text that is safe on a terminal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "generation.h"
#include "run_config.h"
#include "session.h"

namespace patchbay::app {

/// The run that key=value assignments describe. @throws Error.
RunConfig run_config(const std::vector<std::string>& assignments, int threads);
/// Opens the model and builds the session.
std::unique_ptr<Session> open_session(const ModelOptions& options, const SessionOptions& session = {});
/// The prompt of a command: text (special tokens parsed, BOS as the model says), a file's text, or tokens as given.
std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, const std::optional<std::string>& text,
                                 const std::optional<std::string>& file, const std::vector<int>& tokens);
struct Prompted {
  std::vector<Token> prompt;
  std::unique_ptr<Session> session;
};
/// A prompt, and a session with room for it and `more` tokens, as far as the model's context goes. @throws Error when it is longer.
Prompted open_prompted(const ModelOptions& options, const std::optional<std::string>& text, const std::optional<std::string>& file,
                       const std::vector<int>& tokens, std::int64_t more);
const char* name_of(GenerationResult::Finish finish);
/// Control characters and escape sequences made visible.
std::string printable(std::string_view text);
/// Whether stdout is a terminal that shows UTF-8, as its locale says; else tables use ASCII.
bool unicode_terminal();
/// The width of the terminal behind a descriptor; 0 where there is none or it does not say.
std::size_t terminal_columns(int descriptor);

}  // namespace patchbay::app
