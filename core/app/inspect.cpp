// patchbay inspect MODEL: what a model file or folder holds. Settings, where given, are checked against it (shapes, formats), as `plan`
// does.
//
// --json: {"file", "form": "gguf" or "safetensors", "gguf_version" of GGUF, "file_bytes", "architecture", "name", "hyperparameters": {..}, "tokenizer": {..},
// "parameters", "weights_bytes", "bits_per_weight", where there are any "warnings": [..], of quantised folders and what `patchbay quantize` wrote
// "quantization": {"layout" of a folder, "weights": the settings, "calibration_sha256"}, with bits_by_sensitivity "note",
// "types": [{"type", "tensors", "parameters", "bytes", "bits_per_weight", "computed"}]} and with --tensors
// "tensors": [{"name", "type", "shape", "bytes"}], shapes as in the file: the first extent varies fastest; with settings also "runs_as", "runs_as_bits_per_weight"
// and, where a mix's blocks divide no row, "instead_of".
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "folder_warnings.h"
#include "json_file.h"
#include "layouts/quantization_config.h"
#include "quantize/sensitivity_scan.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

using nlohmann::json;

std::int64_t parameters_of(const FileTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  return count;
}

double bits_per_weight(std::int64_t bytes, std::int64_t parameters) {
  return parameters > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters) : 0.0;
}

/// A value as JSON; an array by its length, so that vocabularies don't flood the output.
json value_json(const MetaEntry& entry) {
  const auto convert = [](const auto& value) -> json {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view> || requires { value + 1; }) {
      return value;
    } else {
      return fmt::format("{} values", value.size());
    }
  };
  return std::visit(convert, entry.value);
}

/// All keys that begin with `prefix`, without it.
json values_under(const ModelFile& file, const std::string& prefix) {
  json values = json::object();
  for (const MetaEntry& entry : file.metadata()) {
    if (entry.key.starts_with(prefix)) values[std::string(entry.key.substr(prefix.size()))] = value_json(entry);
  }
  return values;
}

/// The layout of a folder's quantised weights, and what `patchbay quantize` left of its settings; empty where there is neither.
json quantization_of(const ModelFile& file, const json& hyperparameters) {
  json result = json::object();
  if (file.form() == FileForm::gguf) {
    if (const auto text = file.maybe_string("patchbay.weights")) {
      try {
        result["weights"] = JsonFile("patchbay.weights", std::string(*text)).value();
      } catch (const Error&) {
        result["weights"] = *text;  // somebody else's
      }
    }
    if (const auto hash = file.maybe_string("patchbay.calibration.sha256")) result["calibration_sha256"] = *hash;
  } else if (!file.folder().empty()) {
    if (const auto config = read_quantization_config(file.folder())) result["layout"] = layout_name(*config);
    if (const auto ours = hyperparameters.find("patchbay"); ours != hyperparameters.end() && ours->is_object()) result.update(*ours);
  }
  return result;
}

struct TypeTotal { std::int64_t tensors = 0, parameters = 0, bytes = 0; bool computed = false; };

json types_json(const ModelFile& file) {
  std::map<std::string_view, TypeTotal> totals;
  for (const FileTensor& tensor : file.tensors()) {
    TypeTotal& total = totals[tensor.type_name];
    ++total.tensors;
    total.parameters += parameters_of(tensor);
    total.bytes += tensor.bytes;
    total.computed = !tensor.format.empty();
  }
  json types = json::array();
  for (const auto& [name, total] : totals) {
    types.push_back({{"type", name}, {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes},
                     {"bits_per_weight", bits_per_weight(total.bytes, total.parameters)}, {"computed", total.computed}});
  }
  return types;
}

void describe_gguf(const ModelFile& file, json& result) {
  const std::string architecture(file.maybe_string("general.architecture").value_or(""));
  result["gguf_version"] = file.version();
  result["architecture"] = architecture;
  if (const auto name = file.maybe_string("general.name")) result["name"] = *name;
  if (!architecture.empty()) result["hyperparameters"] = values_under(file, architecture + ".");
  result["tokenizer"] = values_under(file, "tokenizer.ggml.");
}

/// config.json's keys, and what the tokenizer's files come to. Tensors without a model have what "__metadata__" says.
void describe_folder(const ModelFile& file, json& result) {
  result["architecture"] = "";
  result["tokenizer"] = json::object();
  if (file.folder().empty()) {
    result["metadata"] = values_under(file, "");
    return;
  }
  result["hyperparameters"] = JsonFile(file.folder() + "/config.json").value();
  result["architecture"] = result["hyperparameters"]["model_type"];
  const auto tokenizer = make_tokenizer(file);
  if (!tokenizer->knows_text()) return;
  result["tokenizer"] = {{"tokens", tokenizer->size()}, {"bos_token_id", tokenizer->bos()}, {"eos_token_id", tokenizer->eos()}};
}

json summary(const ModelFile& file) {
  const bool gguf = file.form() == FileForm::gguf;
  std::int64_t parameters = 0, bytes = 0;
  for (const FileTensor& tensor : file.tensors()) parameters += parameters_of(tensor), bytes += tensor.bytes;
  json result = {{"file", file.path()}, {"form", gguf ? "gguf" : "safetensors"}, {"file_bytes", file.file_bytes()}};
  gguf ? describe_gguf(file, result) : describe_folder(file, result);
  if (json quantization = quantization_of(file, result.value("hyperparameters", json::object())); !quantization.empty()) result["quantization"] = std::move(quantization);
  result["parameters"] = parameters;
  result["weights_bytes"] = bytes;
  result["bits_per_weight"] = bits_per_weight(bytes, parameters);
  result["types"] = types_json(file);
  return result;
}

/// `planned`: how the run of the settings would hold them; empty without settings.
json tensors_json(const ModelFile& file, const std::map<std::string, TensorPath>& planned) {
  json tensors = json::array();
  for (const FileTensor& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name}, {"type", tensor.type_name}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
    const auto found = planned.find(std::string(tensor.name));
    if (found == planned.end()) continue;
    tensors.back()["runs_as"] = found->second.format;
    tensors.back()["runs_as_bits_per_weight"] = found->second.bits_per_weight;
    if (!found->second.instead_of.empty()) tensors.back()["instead_of"] = found->second.instead_of;
  }
  return tensors;
}

constexpr std::size_t kShown = 100, kSettingShown = 300;  // bytes of a text

std::string shown(const json& value, std::size_t limit = kShown) { return value.is_string() ? escaped(value.get<std::string>(), limit) : value.dump(); }

void print_group(const char* title, const json& values, std::size_t limit = kShown) {
  if (values.empty()) return;
  fmt::print("\n{}\n", title);
  for (const auto& [key, value] : values.items()) fmt::print("  {:<36} {}\n", escaped(key), shown(value, limit));
}

/// Settings, one a line, as the command line has them: "format.bits", 4. Of a list (rules) at most so many lines.
void add_settings(const std::string& path, const json& value, json& lines) {
  constexpr std::size_t kListed = 8;
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_settings(path.empty() ? key : path + "." + key, inner, lines);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < std::min(value.size(), kListed); ++i) lines[fmt::format("{}[{}]", path, i)] = value[i].dump(-1, ' ', false, json::error_handler_t::replace);
    if (value.size() > kListed) lines[path + "[...]"] = fmt::format("{} more; --json has all", value.size() - kListed);
  } else {
    lines[path] = value;
  }
}

json setting_lines(const json& quantization) {
  json lines = json::object();
  for (const auto& [key, value] : quantization.items()) add_settings(key == "weights" && value.is_object() ? "" : key, value, lines);
  return lines;
}

std::string runs_as(const json& tensor) {
  if (!tensor.contains("runs_as")) return {};
  const std::string instead = tensor.contains("instead_of") ? " instead of " + tensor["instead_of"].get<std::string>() : "";
  return fmt::format("  runs as {}, {:.3f} bits{}", tensor["runs_as"].get<std::string>(), tensor["runs_as_bits_per_weight"].get<double>(), instead);
}

void print(const json& model) {
  fmt::print("{}\n", escaped(model["file"].get<std::string>()));
  if (model.contains("name")) fmt::print("  {:<36} {}\n", "name", shown(model["name"]));
  const std::string form = model.contains("gguf_version") ? "GGUF version " + model["gguf_version"].dump() : "safetensors";
  fmt::print("  {:<36} {}, {} bytes\n", "container", form, model["file_bytes"].dump());
  fmt::print("  {:<36} {}\n", "architecture", shown(model["architecture"]));
  fmt::print("  {:<36} {:.1f} million\n", "parameters", model["parameters"].get<double>() / 1e6);
  fmt::print("  {:<36} {:.1f} MB, {:.3f} bits per weight\n", "weights", model["weights_bytes"].get<double>() / 1e6,
             model["bits_per_weight"].get<double>());
  json hyperparameters = model.value("hyperparameters", json::object());
  hyperparameters.erase("patchbay");  // a group of its own
  print_group("architecture", hyperparameters);
  print_group("quantisation", setting_lines(model.value("quantization", json::object())), kSettingShown);
  print_group("tokenizer", model["tokenizer"]);
  print_group("metadata", model.value("metadata", json::object()));
  fmt::print("\n{:<12} {:>8} {:>14} {:>14} {:>8}\n", "type", "tensors", "parameters", "bytes", "bits");
  for (const json& type : model["types"]) {
    fmt::print("{:<12} {:>8} {:>14} {:>14} {:>8.3f}{}\n", type["type"].get<std::string>(), type["tensors"].dump(),
               type["parameters"].dump(), type["bytes"].dump(), type["bits_per_weight"].get<double>(),
               type["computed"].get<bool>() ? "" : "  known, not computed");
  }
  if (!model.contains("tensors")) return;
  fmt::print("\n{:<36} {:<8} {:>14}  shape, fastest first\n", "tensor", "type", "bytes");
  for (const json& tensor : model["tensors"]) {
    fmt::print("{:<36} {:<8} {:>14}  {}{}\n", escaped(tensor["name"].get<std::string>()), tensor["type"].get<std::string>(),
               tensor["bytes"].dump(), tensor["shape"].dump(), runs_as(tensor));
  }
}

}  // namespace

int inspect(const InspectOptions& options) {
  const auto file = ModelFile::open(find_model(options.model.model));
  check_model(*file);
  std::map<std::string, TensorPath> planned;
  std::string note;
  if (!options.model.assignments.empty()) {
    const RunConfig config = run_config(options.model.assignments, options.model.threads);
    check_run(*file, config);
    planned = planned_weights(*file, config);
    note = scan_note(config);
  }
  std::vector<std::string> warnings = folder_warnings(*file);
  json result = summary(*file);
  if (const json& tokenizer = result["tokenizer"]; !file->folder().empty() && tokenizer.contains("tokens")) {
    if (const std::string warning = missing_rows_warning(*file, tokenizer["tokens"]); !warning.empty()) warnings.push_back(warning);
  }
  if (!warnings.empty()) result["warnings"] = warnings;
  if (!note.empty()) result["note"] = note;
  if (options.tensors) result["tensors"] = tensors_json(*file, planned);
  if (options.model.json) {
    fmt::print("{}\n", result.dump(-1, ' ', false, json::error_handler_t::replace));
  } else {
    if (!note.empty()) fmt::print(stderr, "patchbay: note: {}\n", note);
    for (const std::string& warning : warnings) fmt::print(stderr, "{}: warning: {}\n", printable(file->path()), warning);
    print(result);
  }
  return 0;
}

}  // namespace patchbay::app
