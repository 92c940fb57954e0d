/// @file chat_files.h
/// What a model's files say about chats: templates, and the special tokens that templates may name.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model_file.h"
#include "patchbay/error.h"

namespace patchbay {

struct ChatFiles {
  std::string where;                                  ///< for messages
  std::map<std::string, std::string> templates;       ///< by name; most models have one, "default"
  std::map<std::string, std::string> special_tokens;  ///< "bos_token" -> "<s>"
  std::map<std::string, std::string> places;          ///< where each template is from, for messages
};

/// @param path a GGUF file (`tokenizer.chat_template`, `tokenizer.chat_template.NAME`), or a folder as transformers writes it
/// (chat_template.jinja, additional_chat_templates/NAME.jinja, `chat_template` in tokenizer_config.json; the files count before the key).
PATCHBAY_API ChatFiles read_chat_files(const std::string& path);
PATCHBAY_API ChatFiles read_chat_files(const ModelFile& file);
/// The names of the special tokens that templates may ask for: "bos_token", ...
PATCHBAY_API std::vector<std::string> special_token_names();
/// The template for a chat with or without tools. @throws Error saying what to do where there is none.
PATCHBAY_API const std::string& choose_template(const ChatFiles& files, bool tools);
/// Where that one is from.
PATCHBAY_API const std::string& place_of_template(const ChatFiles& files, bool tools);

}  // namespace patchbay
