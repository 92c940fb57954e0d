/// @file chat_inputs.h
/// What `chat` and `template` read: templates, messages, tools, the date.
#pragma once
#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "chat/chat_template.h"

namespace patchbay::app {

/// The template in a file, else the model's own for chats with or without tools. @throws Error.
ChatTemplate open_chat_template(const std::string& model, const std::optional<std::string>& file, bool tools);
/// A JSON file, or of "-" standard input; its objects in their own order. @throws Error.
nlohmann::ordered_json read_json(const std::string& path);
/// Says on stderr that tools were given to a template that asks for none.
void note_unread_tools(const ChatTemplate& chat_template, bool tools);
std::tm local_time();

}  // namespace patchbay::app
