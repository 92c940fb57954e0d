#include "chat_inputs.h"

#include <fmt/core.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "files.h"
#include "json_file.h"
#include "model_file.h"
#include "utf8.h"

namespace patchbay::app {

ChatTemplate open_chat_template(const std::string& model, const std::optional<std::string>& file, bool tools) {
  const ChatFiles files = read_chat_files(find_model(model));
  if (file) return {read_whole_file(*file), escaped(*file), files.special_tokens};
  return {choose_template(files, tools), place_of_template(files, tools), files.special_tokens};
}

nlohmann::ordered_json read_json(const std::string& path) {
  if (path != "-") refuse_special_file(path);
  const std::string bytes = path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_whole_file(path);
  const JsonFile checked(path == "-" ? "standard input" : escaped(path), bytes);  // its limits, and its errors
  return nlohmann::ordered_json::parse(bytes);
}

void note_unread_tools(const ChatTemplate& chat_template, bool tools) {
  if (tools && !chat_template.reads("tools")) fmt::print(stderr, "patchbay: note: the chat template has no place for tools: the model will not see them\n");
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

}  // namespace patchbay::app
