/// @file chat_files.h
/// What a model's files say about chats: templates, and the special tokens that templates may name.
#pragma once
#include <map>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

struct ChatFiles {
  std::string where;                                  ///< for messages
  std::map<std::string, std::string> templates;       ///< by name; most models have one, "default"
  std::map<std::string, std::string> special_tokens;  ///< "bos_token" -> "<s>"
};

/// @param path a GGUF file (`tokenizer.chat_template`, `tokenizer.chat_template.NAME`), or a folder as transformers writes it
/// (chat_template.jinja, additional_chat_templates/NAME.jinja, `chat_template` in tokenizer_config.json; the files count before the key).
PATCHBAY_API ChatFiles read_chat_files(const std::string& path);
/// The template for a chat with or without tools. @throws Error saying what to do where there is none.
PATCHBAY_API const std::string& choose_template(const ChatFiles& files, bool tools);

}  // namespace patchbay
