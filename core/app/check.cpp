// patchbay check FILE: is this model (a file or a folder), experiment, description of a model (configs/models) or tokenizer.json sound? 0,
// or 1 with one line of reason. A model's weights are all decoded: a NaN among them, or in its scales, is a fault.
//
// --json: {"file", "kind": "model", "config", "model description" or "tokenizer", "valid", "reason" where not valid, "warnings": [..]}.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "chat/chat_template.h"
#include "commands.h"
#include "common.h"
#include "config.h"
#include "experiment/plan.h"
#include "failures.h"
#include "folder_warnings.h"
#include "json_file.h"
#include "patchbay/plugin.h"
#include "quantize/finite_weights.h"
#include "settings_reader.h"

namespace patchbay::app {
namespace {

bool is_config(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  if (extension != ".yaml" && extension != ".yml") return false;
  char magic[4] = {};
  if (std::filesystem::is_regular_file(path)) std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) != "GGUF";  // a model under a wrong name is still a model
}

/// JSON that says which model of tokens it is: what Hugging Face calls tokenizer.json, under any name.
bool is_tokenizer(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream in(path, std::ios::binary);
  char first = 0;
  if (!(in >> first) || first != '{') return false;
  if (std::filesystem::path(path).filename() == "tokenizer.json") return true;  // whatever is wrong with it
  try {
    const JsonFile file(path);
    const auto model = file.root().find("model");
    return model && model->is_object() && model->find("vocab");
  } catch (const Error&) {
    return false;
  }
}

/// Bytes after the last tensor and its padding: harmless to us, but something may hide there.
void warn_of_trailing_bytes(const ModelFile& file, std::vector<std::string>& warnings) {
  const auto alignment = static_cast<std::int64_t>(file.maybe_integer("general.alignment").value_or(32));
  const std::int64_t end = file.file_bytes() - file.trailing_bytes();
  const std::int64_t padding = (alignment - end % alignment) % alignment;
  if (file.trailing_bytes() <= padding) return;
  warnings.push_back(fmt::format("{} bytes after the last tensor belong to no model", file.trailing_bytes() - padding));
}

/// A vocabulary of a kind that is known here is read to its last merge; of another kind only the container can be judged.
void check_tokenizer(const ModelFile& file, std::vector<std::string>& warnings) {
  if (file.find("tokenizer.ggml.model") == nullptr && file.folder().empty()) return;
  try {
    const auto tokenizer = make_tokenizer(file);
    if (!tokenizer->knows_text()) warnings.push_back("without tokenizer.json its tokens are numbers alone");
    if (const std::string warning = missing_rows_warning(file, tokenizer->size()); !warning.empty()) warnings.push_back(warning);
  } catch (const Error& error) {
    // A kind of tokenizer that is not known here is no fault of the file.
    if (!error.problem().starts_with("unknown tokenizer") && !error.problem().starts_with("unknown pre-tokenizer")) throw;
    warnings.push_back(fmt::format("its text cannot be tokenised here: {}; {}", error.problem(), error.allowed()));
  }
}

void check_chat_templates(const ModelFile& file) {
  const ChatFiles files = read_chat_files(file);
  for (const auto& [name, source] : files.templates) ChatTemplate(source, files.places.at(name), files.special_tokens);
}

/// As many threads as there is work for: a small file is read by one.
PluginSpec reading_backend(std::int64_t bytes) {
  constexpr std::int64_t kBytesPerThread = 64 << 20, kMostThreads = 8;  // more wait for the disk
  const std::int64_t threads = std::clamp<std::int64_t>(bytes / kBytesPerThread, 1, std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, kMostThreads));
  Settings settings;
  settings.kind = Settings::Kind::map;
  settings.entries.emplace_back("threads", plain_settings(std::to_string(threads)));
  return {"cpu", std::make_shared<const Settings>(std::move(settings))};
}

std::vector<std::string> check_model_file(const std::string& path) {
  const auto file = ModelFile::open(path);
  check_model(*file);
  std::vector<std::string> warnings = folder_warnings(*file);
  check_tokenizer(*file, warnings);
  check_chat_templates(*file);
  warn_of_trailing_bytes(*file, warnings);
  std::ranges::move(check_finite(file, make<Backend>(reading_backend(file->file_bytes()))->ops().device()), std::back_inserter(warnings));
  return warnings;
}

/// A description is sound when its keys are, and the model that it speaks of, where that is here.
std::vector<std::string> check_description(const std::string& path) {
  std::string model;
  try {
    model = find_described_model(path);
  } catch (const Error& error) {
    if (error.remedy().empty()) throw;  // only what concerns the model's file has one: it can be fetched
    return {std::string("the model was not checked: ") + error.what()};
  }
  return check_model_file(model);
}

/// All that `plan` checks. Without the model's file that is all but the shapes.
std::vector<std::string> check_config(Settings yaml, const std::string& path) {
  Plan plan = read_plan(std::move(yaml), path);
  try {
    find_model(plan.model);
  } catch (const Error& error) {
    return {std::string("the runs were not checked against the model: ") + error.what()};
  }
  check_plan(plan);
  return {};
}

}  // namespace

int check(const CheckOptions& options) {
  std::vector<std::string> warnings;
  std::string reason, kind = is_config(options.file) ? "config" : is_tokenizer(options.file) ? "tokenizer" : "model";
  try {
    if (kind == "model") {
      warnings = check_model_file(find_model(options.file));
    } else if (kind == "tokenizer") {
      load_tokenizer(options.file);
    } else {
      Settings yaml = parse_yaml_file(options.file);
      if (describes_model(yaml)) kind = "model description";
      warnings = kind == "config" ? check_config(std::move(yaml), options.file) : check_description(options.file);
    }
  } catch (const std::bad_alloc&) {
    throw;  // no judgement on the file
  } catch (const std::exception& error) {
    reason = printable(reason_of(error));
  }
  if (options.json) {
    nlohmann::json result = {{"file", options.file}, {"kind", kind}, {"valid", reason.empty()}};
    result["warnings"] = warnings;
    if (!reason.empty()) result["reason"] = reason;
    fmt::print("{}\n", result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return reason.empty() ? 0 : 1;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}: warning: {}\n", printable(options.file), warning);
  if (!reason.empty()) {
    fmt::print(stderr, "{}\n", reason);
    return 1;
  }
  const std::string whole = std::filesystem::is_directory(options.file) ? "model folder" : "model file";
  fmt::print("{}: a sound {}\n", printable(options.file), kind == "model" ? whole : kind);
  return 0;
}

}  // namespace patchbay::app
