#include "folder_warnings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "json_file.h"
#include "path_checks.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Warnings = std::vector<std::string>;

constexpr std::string_view kIndexEnd = ".safetensors.index.json";

/// The index that the model was read by; "": none.
std::string index_of(const ModelFile& file) {
  for (const std::string& path : file.paths()) {
    if (path.ends_with(kIndexEnd)) return path;
  }
  return "";
}

void check_twice(const ModelFile& file, Warnings& warnings) {
  const std::string index = file.folder() + "/model.safetensors.index.json";
  if (file.folder().empty() || !index_of(file).empty() || !is_there(index)) return;
  warnings.push_back("the weights are here twice: model.safetensors is read, as transformers does, model.safetensors.index.json and its shards are not");
}

void check_index(const ModelFile& file, Warnings& warnings) {
  const std::string path = index_of(file);
  if (path.empty()) return;
  const JsonFile index(path);
  std::unordered_set<std::string> named;
  index.root().at("weight_map").members([&](std::string_view tensor, const JsonNode&) { named.emplace(tensor); });
  std::size_t unnamed = 0;
  std::string first;
  std::int64_t bytes = 0;
  for (const FileTensor& tensor : file.tensors()) {
    bytes += tensor.bytes;
    if (named.contains(std::string(tensor.name))) continue;
    if (unnamed++ == 0) first = escaped(tensor.name, 80);
  }
  if (unnamed > 0) warnings.push_back(fmt::format("{}: leaves out {} tensors that its shards hold ({}{}); they are read", index.name(), unnamed, first, unnamed > 1 ? ", ..." : ""));
  const auto metadata = index.root().find("metadata");
  const auto total = metadata && metadata->is_object() ? metadata->find("total_size") : std::nullopt;
  if (total && total->real() != static_cast<double>(bytes))
    warnings.push_back(fmt::format("{}: total_size is {:.0f}, and the tensors have {} bytes", index.name(), total->real(), bytes));
}

/// A token id, or a list of them.
void check_ids(const JsonFile& config, std::int64_t vocabulary, Warnings& warnings) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto it = config.value().find(key);
    if (it == config.value().end() || it->is_null()) continue;
    for (const nlohmann::json& id : it->is_array() ? *it : nlohmann::json::array({*it})) {
      const bool good = id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() < static_cast<double>(vocabulary);
      if (!good) warnings.push_back(fmt::format("{}: {}: {} is no token; allowed: 0 to {}", config.name(), key, escaped(id.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), 40), vocabulary - 1));
    }
  }
}

/// Settings of sampling, which are not read here: other programs stumble over them.
void check_sampling(const JsonFile& config, Warnings& warnings) {
  for (const char* key : {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"}) {
    const auto it = config.value().find(key);
    if (it == config.value().end() || it->is_null() || it->is_number()) continue;
    warnings.push_back(fmt::format("{}: {}: is no number", config.name(), key));
  }
}

/// config.json's; without one, no bound.
std::int64_t rows_of(const JsonFile& config) {
  const auto size = config.root().find("vocab_size");
  return size ? size->integer(0, INT32_MAX) : INT32_MAX;
}

}  // namespace

std::string missing_rows_warning(const ModelFile& file, int tokens) {
  if (file.folder().empty()) return "";
  const std::int64_t rows = rows_of(JsonFile(file.folder() + "/config.json"));
  if (tokens <= rows) return "";
  return fmt::format("{}/tokenizer.json: has {} tokens, and the model rows for {}: text that becomes one of the others is refused", escaped(file.folder()), tokens, rows);
}

std::vector<std::string> folder_warnings(const ModelFile& file) {
  Warnings warnings;
  if (file.form() == FileForm::gguf) return warnings;
  check_twice(file, warnings);
  check_index(file, warnings);
  if (file.folder().empty()) return warnings;
  const JsonFile config(file.folder() + "/config.json");
  const std::int64_t vocabulary = rows_of(config);
  check_ids(config, vocabulary, warnings);
  if (const std::string path = file.folder() + "/generation_config.json"; is_there(path)) {
    const JsonFile generation(path);
    check_ids(generation, vocabulary, warnings);
    check_sampling(generation, warnings);
  }
  return warnings;
}

}  // namespace patchbay
