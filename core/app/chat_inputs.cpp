#include "chat_inputs.h"

#include <nlohmann/json.hpp>

#include "files.h"
#include "json_file.h"
#include "model_file.h"

namespace patchbay::app {

ChatTemplate open_chat_template(const std::string& model, const std::optional<std::string>& file, bool tools) {
  const ChatFiles files = read_chat_files(find_model(model));
  if (file) return {read_whole_file(*file), *file, files.special_tokens};
  return {choose_template(files, tools), "chat template of " + files.where, files.special_tokens};
}

nlohmann::ordered_json read_json(const std::string& path) {
  JsonFile checked(path);  // its limits, and its errors
  return nlohmann::ordered_json::parse(read_whole_file(path));
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

}  // namespace patchbay::app
