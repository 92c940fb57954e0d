#include "convert/output_names.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "path_checks.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

/// `shown`: the one of both names that the user gave.
void rename_path(const std::string& from, const std::string& to, const std::string& shown) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) throw Error(escaped(shown), "renaming failed: " + code.message());
}

/// Whether `path` is a file of the model, or leads to one.
bool is_part_of(const ModelFile& file, const std::string& path) {
  std::error_code ignored;
  return std::ranges::any_of(file.paths(), [&](const std::string& part) { return fs::equivalent(part, path, ignored); });
}

/// --force replaces a model's folder, and no other: what is in it must be what such folders hold.
void require_model_folder(const std::string& out) {
  constexpr std::string_view kNames[] = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                         "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja", "added_tokens.json", "quantize_config.json"};
  constexpr std::string_view kMoreTemplates = "additional_chat_templates";
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    const bool known = std::ranges::find(kNames, name) != std::end(kNames) || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    const bool is_template = fs::path(name).extension() == ".jinja" && entry.path().parent_path().filename() == kMoreTemplates;
    if (entry.is_directory() ? name != kMoreTemplates : !known && !is_template) throw Error(escaped(entry.path().string()), "is no file of a model's folder: --force does not replace it", "", "remove it, or write into another folder");
  }
}

}  // namespace

bool names_gguf(const std::string& path) {
  constexpr std::string_view kEnding = ".gguf";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return path.size() >= kEnding.size() && std::equal(path.end() - static_cast<std::ptrdiff_t>(kEnding.size()), path.end(), kEnding.begin(), same);
}

std::string gguf_target(const ModelFile& file, const std::string& out, bool force) {
  constexpr const char* kName = "NAME.gguf";
  if (fs::is_directory(out)) throw Error(escaped(out), "is a folder, and a folder becomes a GGUF file", kName);
  if (is_part_of(file, out)) throw Error(escaped(out), "belongs to the model that is read: writing it would destroy that", kName, "give another name");
  const std::string target = output_target(out);
  if (names_gguf(out) && fs::path(out).stem() == fs::path(out).filename()) throw Error(escaped(out), "is an ending without a name", kName, "put a name before it");
  if (!names_gguf(out)) throw Error(escaped(out), "is no name of a GGUF file, which is what a folder becomes", kName);
  if (!names_gguf(target)) throw Error(escaped(out), "is a link to " + escaped(target) + ", which is no GGUF file", kName, "give another name");
  if (fs::exists(target) && !force) throw Error(escaped(out), "exists", "", "--force replaces it");
  return target;
}

std::string folder_target(const ModelFile& file, const std::string& out, bool force) {
  constexpr const char* kName = "the folder's name";
  std::string folder = fs::path(out).has_filename() ? out : fs::path(out).parent_path().string();
  if (folder.empty()) folder = out;  // "/"
  if (names_gguf(folder) || folder.ends_with(".safetensors")) throw Error(escaped(folder), "is a file's name, and a GGUF file becomes a folder", kName);
  if (fs::is_symlink(folder)) {
    if (!fs::exists(folder)) throw Error(escaped(folder), "is a link that leads nowhere", kName, "remove the link, or give another name");
    folder = fs::canonical(folder).string();
  }
  if (fs::exists(folder) && !fs::is_directory(folder)) throw Error(escaped(folder), "is a file", kName);
  if (!fs::exists(folder)) {
    output_target(folder);  // refuses what lies in no folder
    return folder;
  }
  if (fs::is_empty(folder)) return folder;
  if (!force) throw Error(escaped(folder), "exists and is not empty", "", "--force replaces it");
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_part_of(file, entry.path().string())) throw Error(escaped(folder), "holds the model that is read: writing it would destroy that", kName, "give another name");
  }
  require_model_folder(folder);
  return folder;
}

Beside::Beside(const std::string& out) : path(out + ".part" + std::to_string(::getpid())) {}
Beside::~Beside() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

Error Beside::as_of(const std::string& out, const Error& error) const {
  const auto named = [from = escaped(path), to = escaped(out)](std::string text) {
    for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    return text;
  };
  return {named(error.where()), named(error.problem()), named(error.allowed()), error.remedy()};
}

void Beside::rename_to(const std::string& out) const { rename_path(path, out, out); }

void Beside::replace_folder(const std::string& out) const {
  if (!fs::exists(out) || fs::is_empty(out)) {
    std::error_code ignored;
    fs::remove(out, ignored);
    return rename_to(out);
  }
  const Beside old(out + ".old");
  rename_path(out, old.path, out);
  try {
    rename_to(out);
  } catch (...) {
    std::error_code ignored;
    fs::rename(old.path, out, ignored);  // back: it would go away with `old`
    throw;
  }
}

}  // namespace patchbay
