#include "command_line.h"

#include <algorithm>

#include "common.h"
#include "config.h"

namespace patchbay::app {

CLI::Option* json_flag(CLI::App& command, bool& json) { return command.add_flag("--json", json, "Machine-readable output"); }
void assignments(CLI::App& command, std::vector<std::string>& list, const char* what) { command.add_option("key=value", list, what); }
void threads(CLI::App& command, int& count, const char* what) { number(command, "--threads", count, what, 0, kMaxThreads); }
std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) {
    if (std::ranges::find(names, text) != names.end()) return std::string();
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    const std::string near = suggestion(text, names);
    return "'" + text + "' is none of " + all + (near.empty() ? "" : "; did you mean " + near + "?");
  };
}
void model(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.model, "A GGUF file, a Hugging Face folder, or the name of a file in configs/models")->required();
  threads(command, options.threads);
  json_flag(command, options.json);
}
/// One argument, "1,2,3", split here: it must not swallow the key=value that follow, and CLI11 drops empty numbers.
void token_list(CLI::App& command, std::vector<int>& list) {
  const auto each = [](const std::string& text, const auto& number) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      number(text.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  const auto fault = [each](const std::string& text) {
    std::string first;
    each(text, [&](const std::string& number) { first = first.empty() ? not_a_number<int>(number) : first; });
    return first;
  };
  const auto take = [each, &list](const std::string& text) { each(text, [&](const std::string& number) { list.push_back(std::stoi(number)); }); };
  command.add_option_function<std::string>("--tokens", take, "The prompt as token numbers: 1,2,3")->check(fault);
}

}  // namespace patchbay::app
