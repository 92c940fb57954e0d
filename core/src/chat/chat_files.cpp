#include "chat/chat_files.h"

#include <array>
#include <filesystem>

#include "files.h"
#include "json_file.h"
#include "model_file.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::array kTokens = {std::array{"bos_token", "bos"}, std::array{"eos_token", "eos"}, std::array{"unk_token", "unknown"},
                                std::array{"sep_token", "seperator"}, std::array{"pad_token", "padding"}, std::array{"mask_token", "mask"}};

ChatFiles from_gguf(const ModelFile& file) {
  ChatFiles files{escaped(file.path()), {}, {}};
  for (const MetaEntry& entry : file.metadata()) {
    const auto* text = std::get_if<std::string_view>(&entry.value);
    if (text == nullptr || !entry.key.starts_with(kTemplateKey)) continue;
    const std::string_view name = entry.key.substr(kTemplateKey.size());
    if (name.empty()) files.templates["default"] = *text;
    if (name.starts_with('.')) files.templates[std::string(name.substr(1))] = *text;
  }
  const MetaEntry* tokens = file.find("tokenizer.ggml.tokens");
  const auto* texts = tokens ? std::get_if<std::vector<std::string_view>>(&tokens->value) : nullptr;
  for (const auto& [name, ggml_name] : kTokens) {
    const auto id = file.maybe_integer("tokenizer.ggml." + std::string(ggml_name) + "_token_id");
    if (id && texts && *id < texts->size()) files.special_tokens[name] = (*texts)[*id];
  }
  return files;
}

void read_config(const JsonFile& config, ChatFiles& files) {
  for (const auto& token : kTokens) {
    const auto node = config.root().find(token[0]);
    if (node) files.special_tokens[token[0]] = node->is_object() ? node->at("content").text() : node->text();
  }
  const auto templates = config.root().find("chat_template");
  if (!templates) return;
  if (templates->is_string()) {
    files.templates["default"] = templates->text();
  } else {
    templates->elements([&](const JsonNode& node) { files.templates[std::string(node.at("name").text())] = node.at("template").text(); });
  }
}

ChatFiles from_folder(const fs::path& folder) {
  ChatFiles files{escaped(folder.string()), {}, {}};
  const fs::path config = folder / "tokenizer_config.json", single = folder / "chat_template.jinja", more = folder / "additional_chat_templates";
  if (fs::exists(config)) read_config(JsonFile(config.string()), files);
  if (fs::exists(single)) files.templates["default"] = read_whole_file(single.string());
  if (!fs::is_directory(more)) return files;
  for (const auto& entry : fs::directory_iterator(more)) {
    if (entry.path().extension() == ".jinja") files.templates[entry.path().stem().string()] = read_whole_file(entry.path().string());
  }
  return files;
}

}  // namespace

ChatFiles read_chat_files(const std::string& path) {
  const fs::path place(path);
  if (fs::is_directory(place)) return from_folder(place);
  if (place.extension() == ".safetensors" || place.extension() == ".json") return from_folder(place.has_parent_path() ? place.parent_path() : fs::path("."));
  return from_gguf(*ModelFile::open(path));
}

const std::string& choose_template(const ChatFiles& files, bool tools) {
  const auto with_tools = files.templates.find("tool_use");
  if (tools && with_tools != files.templates.end()) return with_tools->second;
  const auto usual = files.templates.find("default");
  if (usual != files.templates.end()) return usual->second;
  std::string names;
  for (const auto& [name, source] : files.templates) names += (names.empty() ? "" : ", ") + escaped(name, 40);
  throw Error(files.where, names.empty() ? "the model has no chat template" : "the model has no chat template 'default', only: " + names, "",
              "it may be a base model, which continues texts: patchbay generate; or give a template: --template FILE.jinja");
}

}  // namespace patchbay
