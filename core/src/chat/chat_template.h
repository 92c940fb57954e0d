/// @file chat_template.h
/// From messages to the text and the tokens that a model was trained on.
#pragma once
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "chat/chat_files.h"
#include "jinja/template.h"
#include "tokenizer.h"

namespace patchbay {

/// What a template is rendered with. JSON values are transformers' arguments of apply_chat_template.
struct ChatInput {
  const nlohmann::ordered_json& messages;   ///< [{"role": "user", "content": "..."}, ...]
  const nlohmann::ordered_json* tools = nullptr;
  const nlohmann::ordered_json* variables = nullptr;  ///< more names, such as enable_thinking
  bool add_generation_prompt = true;
  std::optional<std::tm> now = std::nullopt;  ///< the date, where the template asks for it
  /// What errors call the three: where they are from.
  std::string messages_from = "messages", tools_from = "tools", variables_from = "variables";
};

class PATCHBAY_API ChatTemplate {
 public:
  /// `name` is what errors call it. @throws Error for a template that cannot be read, and for what is none.
  ChatTemplate(const std::string& source, std::string name, std::map<std::string, std::string> special_tokens);

  /// All strings of messages, tools and variables are data; the roles are the frame's, and are words. @throws Error for messages that
  /// are none, and for what the template refuses.
  FramedText render(const ChatInput& input) const;
  /// The control token with which the template ends an answer, or -1 where it shows none.
  Token end_of_turn(const Tokenizer& tokenizer) const;
  /// Whether it asks for the name anywhere.
  bool reads(const std::string& name) const { return template_.names().contains(name); }

 private:
  jinja::Template template_;
  std::map<std::string, std::string> special_tokens_;
  std::string own_words_;
};

}  // namespace patchbay
