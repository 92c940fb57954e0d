// Keys: the PyPI package gguf, and transformers' GenerationConfig.
#include "convert/chat_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "chat/chat_files.h"
#include "json_file.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSampling = "general.sampling.";

/// Sampling settings that both forms have.
struct Setting {
  std::string_view folder, gguf;
  bool whole = false;
};
constexpr Setting kSettings[] = {{"temperature", "temp"}, {"top_k", "top_k", true}, {"top_p", "top_p"}, {"min_p", "min_p"}};

/// GGUF's names of templates are letters and digits; what else a name holds becomes '_'.
std::string gguf_name(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

void add_templates(GgufWriter& writer, const std::string& folder, std::vector<std::string>& notes) {
  const ChatFiles files = read_chat_files(folder);
  std::vector<std::string> names;
  for (const auto& [name, text] : files.templates) {
    if (name == "default") {
      writer.text("tokenizer.chat_template", text);
      continue;
    }
    const std::string key = gguf_name(name);
    if (key.empty() || key == "default" || std::ranges::find(names, key) != names.end()) {
      throw Error(files.where, fmt::format("GGUF has no words for the chat template '{}' beside the others", escaped(name, 40)), "names of letters and digits");
    }
    if (key != name) notes.push_back(fmt::format("the chat template '{}' is called {}", escaped(name, 40), key));
    writer.text("tokenizer.chat_template." + key, text);
    names.push_back(key);
  }
  if (!names.empty()) writer.texts("tokenizer.chat_templates", names);
}

void add_sampling(GgufWriter& writer, const std::string& folder, std::vector<std::string>& notes) {
  const std::string path = folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) return;
  const JsonFile file(path);
  const bool samples = file.root().boolean_or("do_sample", false);
  std::vector<std::string> unknown, unused;
  file.root().members([&](std::string_view key, const JsonNode& node) {
    if (node.is_null() || key == "do_sample" || key == "transformers_version" || key.starts_with('_') || key.ends_with("_token_id")) return;
    const auto setting = std::ranges::find(kSettings, key, &Setting::folder);
    if (setting == std::end(kSettings)) return unknown.push_back(escaped(key, 40));
    if (!samples) return unused.push_back(std::string(key));
    const std::string gguf_key = std::string(kSampling) + std::string(setting->gguf);
    if (setting->whole) writer.i32(gguf_key, static_cast<std::int32_t>(node.integer(INT32_MIN, INT32_MAX)));
    else writer.f32(gguf_key, static_cast<float>(node.real()));
  });
  if (!unknown.empty()) notes.push_back(fmt::format("generation_config.json: {} left out: GGUF has no words for it", fmt::join(unknown, ", ")));
  if (!unused.empty()) notes.push_back(fmt::format("generation_config.json: {} left out: without do_sample it has no effect", fmt::join(unused, ", ")));
}

/// The number that a person wrote, not the one next to it in fp32.
double written_number(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

}  // namespace

std::vector<std::string> add_gguf_chat(GgufWriter& writer, const std::string& folder) {
  std::vector<std::string> notes;
  add_templates(writer, folder, notes);
  add_sampling(writer, folder, notes);
  return notes;
}

Json chat_template_json(const ModelFile& gguf) {
  const ChatFiles files = read_chat_files(gguf.path());
  if (files.templates.empty()) return nullptr;
  if (files.templates.size() == 1 && files.templates.contains("default")) return files.templates.at("default");
  Json list = Json::array();
  for (const auto& [name, text] : files.templates) list.push_back({{"name", name}, {"template", text}});
  return list;
}

Json sampling_json(const ModelFile& gguf, std::vector<std::string>& notes) {
  Json sampling = Json::object();
  std::vector<std::string> unknown;
  for (const MetaEntry& entry : gguf.metadata()) {
    if (!entry.key.starts_with(kSampling)) continue;
    const auto setting = std::ranges::find(kSettings, entry.key.substr(kSampling.size()), &Setting::gguf);
    const auto* whole = std::get_if<std::int64_t>(&entry.value);
    const auto* natural = std::get_if<std::uint64_t>(&entry.value);
    const auto* real = std::get_if<double>(&entry.value);
    if (setting == std::end(kSettings) || (setting->whole ? !whole && !natural : !real)) {
      unknown.push_back(escaped(entry.key, 60));
      continue;
    }
    const std::string name(setting->folder);
    sampling["do_sample"] = true;
    if (real) sampling[name] = written_number(*real);
    else if (whole) sampling[name] = *whole;
    else sampling[name] = *natural;
  }
  if (!unknown.empty()) notes.push_back(fmt::format("{} left out: generation_config.json has no words for it", fmt::join(unknown, ", ")));
  return sampling;
}

}  // namespace patchbay
