// patchbay template: what a model's chat template makes of messages, as text and as tokens.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "chat_inputs.h"
#include "commands.h"
#include "common.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

/// Where each token's bytes lie: in the frame, in data, or in both.
std::vector<std::string> origins(const Tokenizer& tokenizer, const FramedText& text, const std::vector<Token>& tokens) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  for (const Token token : tokens) {
    const std::size_t end = begin + tokenizer.piece(token, true).size();
    bool data = false, frame = false;
    std::size_t covered = begin;
    for (const TextRange& range : text.data) {
      if (range.end <= begin || range.begin >= end) continue;
      data = true;
      frame = frame || range.begin > covered;
      covered = range.end;
    }
    names.push_back(!data ? "template" : frame || covered < end ? "both" : "message");
    begin = end;
  }
  return begin == text.text.size() ? names : std::vector<std::string>(tokens.size());  // a tokenizer that rewrites texts
}

}  // namespace

int show_template(const TemplateOptions& options) {
  const std::string path = find_model(options.model.model);
  const ChatTemplate chat_template = open_chat_template(options.model.model, options.chat_template, options.tools.has_value());
  const nlohmann::ordered_json messages = read_json(options.messages), tools = options.tools ? read_json(*options.tools) : nlohmann::ordered_json(),
                               variables = options.variables ? read_json(*options.variables) : nlohmann::ordered_json();
  note_unread_tools(chat_template, options.tools.has_value());
  ChatInput input{messages, options.tools ? &tools : nullptr, options.variables ? &variables : nullptr, !options.no_generation_prompt, local_time()};
  input.messages_from = options.messages == "-" ? "standard input" : escaped(options.messages);
  if (options.tools) input.tools_from = escaped(*options.tools);
  if (options.variables) input.variables_from = escaped(*options.variables);
  const FramedText text = chat_template.render(input);
  const auto tokenizer = load_tokenizer(path);
  const std::vector<Token> tokens = tokenizer->encode(text);
  if (options.model.json) {
    nlohmann::ordered_json data = nlohmann::ordered_json::array();
    for (const TextRange& range : text.data) data.push_back({range.begin, range.end});
    fmt::print("{}\n", nlohmann::ordered_json({{"text", text.text}, {"data", data}, {"tokens", tokens}}).dump());
    return 0;
  }
  fmt::print("{}\n\n", text.text);
  const std::vector<std::string> names = origins(*tokenizer, text, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    fmt::print("{:>8}  {:<8}  '{}'\n", tokens[i], names[i], escaped(tokenizer->piece(tokens[i], true)));
  }
  return 0;
}

}  // namespace patchbay::app
