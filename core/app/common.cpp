#include "common.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "config.h"
#include "engine/model_spec.h"
#include "experiment/sweep.h"
#include "files.h"
#include "progress.h"

namespace patchbay::app {

RunConfig run_config(const std::vector<std::string>& assignments, int threads) {
  Settings settings;
  settings.kind = Settings::Kind::map;
  settings.where = "command line";
  refuse_repeated(assignments);
  for (const std::string& assignment : assignments) apply_assignment(settings, assignment);
  RunConfig config = read_run_config(settings);
  if (threads > 0) config.threads = threads;
  return config;
}

namespace {

/// With a bar while weights are quantised by calibration.
std::unique_ptr<Session> make_session(std::shared_ptr<const ModelFile> file, const RunConfig& config, SessionOptions options) {
  TerminalProgress progress(false);
  options.quantize.progress = [&](double fraction, const std::string& what) { progress.doing(fraction, "quantising: " + what); };
  options.quantize.note = [&](const std::string& line) { progress.note(line); };
  return std::make_unique<Session>(std::move(file), config, options);
}

}  // namespace

std::unique_ptr<Session> open_session(const ModelOptions& options, const SessionOptions& session) {
  return make_session(ModelFile::open(find_model(options.model)), run_config(options.assignments, options.threads), session);
}

std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, const std::optional<std::string>& text,
                                 const std::optional<std::string>& file, const std::vector<int>& tokens) {
  if (text.has_value() + file.has_value() + !tokens.empty() > 1)
    throw Error(file ? "--prompt-file" : "--tokens", "given beside another prompt", "one of --prompt, --prompt-file and --tokens");
  const std::string written = text ? *text : file ? read_whole_file(*file) : "";
  std::vector<Token> prompt(tokens.begin(), tokens.end());
  if (tokens.empty()) prompt = encode_from(file ? *file : "--prompt", tokenizer, written, true, true);
  if (prompt.empty()) throw Error("--prompt", "is empty: there is nothing to continue", "at least one token");
  for (const Token token : prompt) {
    if (token < 0 || token >= tokenizer.size()) {
      throw Error("--tokens", std::to_string(token) + " is outside the vocabulary", "0 to " + std::to_string(tokenizer.size() - 1));
    }
  }
  return prompt;
}

Prompted open_prompted(const ModelOptions& options, const std::optional<std::string>& text, const std::optional<std::string>& file,
                       const std::vector<int>& tokens, std::int64_t more) {
  const RunConfig config = run_config(options.assignments, options.threads);
  const auto model = ModelFile::open(find_model(options.model));
  Prompted result{prompt_tokens(*make_tokenizer(*model), text, file, tokens), nullptr};
  const auto length = static_cast<std::int64_t>(result.prompt.size()), context = read_model_spec(*model).context;
  if (length > context)
    throw Error("--prompt", "has " + std::to_string(length) + " tokens", "at most " + std::to_string(context) + ", the model's context", "shorten it");
  result.session = make_session(model, config, {length + std::min(more, context - length), 1, {}});
  return result;
}

const char* name_of(GenerationResult::Finish finish) {
  switch (finish) {
    case GenerationResult::Finish::length: return "length";
    case GenerationResult::Finish::stop: return "stop";
    case GenerationResult::Finish::full: return "cache full";
  }
  return "";
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out;
}

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ::isatty(descriptor) == 1 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool unicode_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  const locale_t user = ::newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (user == locale_t{}) return false;
  const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, user)) == "UTF-8";
  ::freelocale(user);
  return utf8;
}

}  // namespace patchbay::app
