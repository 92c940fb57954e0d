#include "chat/chat_files.h"

#include <array>
#include <filesystem>

#include "files.h"
#include "json_file.h"
#include "model_file.h"
#include "path_checks.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::array kTokens = {std::array{"bos_token", "bos"}, std::array{"eos_token", "eos"}, std::array{"unk_token", "unknown"},
                                std::array{"sep_token", "seperator"}, std::array{"pad_token", "padding"}, std::array{"mask_token", "mask"}};

void add(ChatFiles& files, std::string_view name, std::string_view text, std::string place) {
  files.templates[std::string(name)] = text;
  files.places[std::string(name)] = std::move(place);
}

ChatFiles from_gguf(const ModelFile& file) {
  ChatFiles files{escaped(file.path()), {}, {}, {}};
  for (const MetaEntry& entry : file.metadata()) {
    if (!entry.key.starts_with(kTemplateKey)) continue;
    const std::string_view name = entry.key.substr(kTemplateKey.size());
    if (!name.empty() && !name.starts_with('.')) continue;  // the list of the names
    const std::string key = escaped(entry.key, 80);
    add(files, name.empty() ? "default" : name.substr(1), file.string(entry.key), files.where + ": " + key);
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
    add(files, "default", templates->text(), templates->where());
  } else if (templates->is_array()) {
    templates->elements([&](const JsonNode& node) { add(files, node.at("name").text(), node.at("template").text(), node.where()); });
  } else {
    templates->fail("is no template", "a text, or a list of names and texts");
  }
}

void add_file(ChatFiles& files, std::string_view name, const fs::path& path) { add(files, name, read_whole_file(path.string()), escaped(path.string())); }

ChatFiles from_folder(const fs::path& folder) {
  ChatFiles files{escaped(folder.string()), {}, {}, {}};
  const fs::path config = folder / "tokenizer_config.json", single = folder / "chat_template.jinja", more = folder / "additional_chat_templates";
  if (is_there(config.string())) read_config(JsonFile(config.string()), files);
  if (is_there(single.string())) add_file(files, "default", single);
  if (!is_there(more.string()) || !fs::is_directory(more)) return files;
  for (const auto& entry : fs::directory_iterator(more)) {
    if (entry.path().extension() == ".jinja" && is_there(entry.path().string())) add_file(files, entry.path().stem().string(), entry.path());
  }
  return files;
}

std::string chosen_name(const ChatFiles& files, bool tools) {
  for (const char* name : {"tool_use", "default"}) {
    if ((tools || name != std::string_view("tool_use")) && files.templates.contains(name)) return name;
  }
  std::string names;
  for (const auto& [name, source] : files.templates) names += (names.empty() ? "" : ", ") + escaped(name, 40);
  throw Error(files.where, names.empty() ? "the model has no chat template" : "the model has no chat template 'default', only: " + names, "",
              "it may be a base model, which continues texts: patchbay generate; or give a template: --template FILE.jinja");
}

}  // namespace

ChatFiles read_chat_files(const std::string& path) {
  const fs::path place(path);
  if (fs::is_directory(place)) return from_folder(place);
  if (place.extension() == ".safetensors" || place.extension() == ".json") return from_folder(place.has_parent_path() ? place.parent_path() : fs::path("."));
  return from_gguf(*ModelFile::open(path));
}

ChatFiles read_chat_files(const ModelFile& file) {
  if (file.form() == FileForm::gguf) return from_gguf(file);
  return file.folder().empty() ? ChatFiles{escaped(file.path()), {}, {}, {}} : from_folder(file.folder());
}

std::vector<std::string> special_token_names() {
  std::vector<std::string> names;
  for (const auto& token : kTokens) names.emplace_back(token[0]);
  return names;
}

const std::string& choose_template(const ChatFiles& files, bool tools) { return files.templates.at(chosen_name(files, tools)); }
const std::string& place_of_template(const ChatFiles& files, bool tools) { return files.places.at(chosen_name(files, tools)); }

}  // namespace patchbay
