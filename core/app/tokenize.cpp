// patchbay tokenize --model M | --tokenizer T, TEXT | --file F: the tokens of a text.
//
// --json: {"tokens": [..]}; plain: one line per token, its number and its bytes, made safe for a terminal.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "files.h"
#include "utf8.h"

namespace patchbay::app {

int tokenize(const TokenizeOptions& options) {
  std::vector<std::string> settings = options.model.assignments;
  // With --file there is no TEXT: the first word is a setting like the others, or one too many.
  if (options.file && options.text && options.text->find('=') == std::string::npos) throw Error("tokenize", "TEXT and --file are both given", "one of both");
  if (options.file && options.text) settings.insert(settings.begin(), *options.text);
  if (!options.file && !options.text) throw Error("tokenize", "nothing to tokenise", "TEXT, or --file F");
  if (!settings.empty()) run_config(settings, options.model.threads);  // no setting changes tokens, but a wrong one is an error
  const std::string text = options.file ? read_whole_file(*options.file) : *options.text;
  if (options.model.model.empty() == options.tokenizer.empty()) throw Error("tokenize", "one tokenizer is needed", "--model M, or --tokenizer T");
  const auto tokenizer = load_tokenizer(options.tokenizer.empty() ? find_model(options.model.model) : options.tokenizer);
  const std::vector<Token> tokens = encode_from(options.file ? *options.file : "TEXT", *tokenizer, text, options.parse_special, options.add_special);
  if (options.model.json) {
    fmt::print("{}\n", nlohmann::json({{"tokens", tokens}}).dump());
    return 0;
  }
  for (const Token token : tokens) fmt::print("{:>8}  '{}'\n", token, escaped(tokenizer->piece(token, true)));
  return 0;
}

}  // namespace patchbay::app
