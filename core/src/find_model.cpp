// From `--model NAME` to a file: configs/models/NAME.yaml says what the file is called, how large it is and where it comes from.
// The file lies in the user's cache, beside its description, or, for a model that comes with patchbay, in data/NAME.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "config.h"
#include "files.h"
#include "model_file.h"
#include "path_checks.h"
#include "resources.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kKeys = {"file", "sha256", "bytes", "source", "licence", "note"};

/// Where model descriptions may lie: under the current folder, and above the program, in a source tree or an installed one.
std::vector<fs::path> description_folders() {
  std::vector<fs::path> folders = {"configs/models"};
  for (auto& place : resource_places("configs/models")) folders.push_back(std::move(place));
  return folders;
}

/// Where scripts/fetch_model.sh keeps models.
fs::path cache_folder() { return user_cache_folder() / "models"; }

std::string known_models() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& folder : description_folders()) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".yaml") names.push_back(escaped(entry.path().stem().string()));
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("a GGUF file, a Hugging Face folder{}{}", names.empty() ? "" : ", or one of: ", fmt::join(names, ", "));
}

std::string scalar(const Settings& description, const std::string& path, std::string_view key) {
  const Settings* value = description.find(key);
  if (value == nullptr) throw Error(fmt::format("{}: {}", path, key), "missing key");
  if (value->kind != Settings::Kind::scalar) throw Error(value->where, "must be a single value");
  return value->text;
}

std::uintmax_t stated_bytes(const Settings& description, const std::string& path) {
  const std::string text = scalar(description, path, "bytes");
  const bool digits = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return std::stoull(text);
  throw Error(description.find("bytes")->where, fmt::format("'{}' is not a size", escaped(text, 60)), "a whole number");
}

/// Every key that a description may and must have, its value as it should be.
void check_description(const Settings& description, const std::string& shown) {
  for (const auto& [key, value] : description.entries) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    const std::vector<std::string> known(kKeys.begin(), kKeys.end());
    const std::string near = suggestion(key, known);
    throw Error(value.where, "unknown key", fmt::format("{}", fmt::join(kKeys, ", ")), near.empty() ? "" : "did you mean " + near + "?");
  }
  const fs::path file = scalar(description, shown, "file");
  if (file.empty() || file != file.filename()) throw Error(description.find("file")->where, "must be a name without folders");
  stated_bytes(description, shown);
  const std::string sha256 = scalar(description, shown, "sha256");
  if (sha256.size() != 64 || sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(description.find("sha256")->where, "is no SHA-256", "64 digits of 0-9, a-f");
}

/// The file that a description speaks of.
std::string described_file(const fs::path& description_path) {
  const std::string shown = escaped(description_path.string());
  const Settings description = parse_yaml_file(description_path.string());
  check_description(description, shown);
  const fs::path file = scalar(description, shown, "file");
  const std::string name = escaped(description_path.stem().string()), fetch = fmt::format("scripts/fetch_model.sh {}", name);
  const fs::path models = description_path.parent_path(), root = models.parent_path().parent_path();
  const fs::path places[] = {cache_folder() / file, models / file, root / "data" / name / file};
  for (const fs::path& place : places) {
    if (!fs::is_regular_file(place)) continue;
    const std::uintmax_t bytes = fs::file_size(place), stated = stated_bytes(description, shown);
    if (bytes == stated) return place.string();
    throw Error(escaped(place.string()), fmt::format("{} bytes where {} says {}", bytes, shown, stated), "", "run " + fetch);
  }
  throw Error(name, fmt::format("{} is not in {}", escaped(file.string()), escaped(cache_folder().string())), "", "run " + fetch);
}

}  // namespace

bool describes_model(const Settings& yaml) {
  const auto is_of_a_model = [](const auto& entry) { return entry.first == "file" || entry.first == "sha256" || entry.first == "bytes"; };
  return std::ranges::any_of(yaml.entries, is_of_a_model);
}

std::string find_described_model(const std::string& description) { return described_file(description); }

std::string find_model(const std::string& file_or_name) {
  if (file_or_name.empty()) throw Error("model", "is empty", known_models());
  const fs::path path(file_or_name);
  const std::string config = (path / "config.json").string();
  if (fs::is_regular_file(path)) {
    if (path.filename() == "config.json") throw Error(escaped(file_or_name), "describes a model, and is none", "a Hugging Face folder, or a GGUF file", "give the folder: " + escaped(path.has_parent_path() ? path.parent_path().string() : "."));
    return file_or_name;
  }
  if (fs::is_directory(path) && is_there(config)) {
    refuse_special_file(config);
    return file_or_name;
  }
  const bool is_path = file_or_name.find('/') != std::string::npos || file_or_name.ends_with(".gguf") || file_or_name.ends_with(".safetensors");
  if (is_path && fs::is_directory(path)) {
    throw Error(escaped(config), "no such file: the folder holds no model", "a Hugging Face folder, or a GGUF file");
  }
  if (is_path) throw Error(escaped(file_or_name), is_there(file_or_name) ? "is not a regular file" : "no such file");
  for (const fs::path& folder : description_folders()) {
    const fs::path description = folder / (file_or_name + ".yaml");
    if (fs::is_regular_file(description)) return described_file(description);
  }
  throw Error(escaped(file_or_name, 200), fs::is_directory(file_or_name) ? "is a folder without config.json, and there is no model of this name" : "no such model", known_models());
}

}  // namespace patchbay
