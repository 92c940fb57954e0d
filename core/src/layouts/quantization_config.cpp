// Keys as their writers define them: transformers' GPTQConfig and AwqConfig, GPTQModel's and AutoGPTQ's quantize_config.json, AutoAWQ's quant_config.
#include "layouts/quantization_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "engine/json_keys.h"
#include "json_file.h"
#include "path_checks.h"

namespace patchbay {
namespace {

/// As Python's re.match: from the beginning on.
bool matches(const std::string& pattern, const std::string& text, const std::string& where) {
  try {
    return std::regex_search(text, std::regex(pattern), std::regex_constants::match_continuous);
  } catch (const std::regex_error&) {
    throw Error(where + ": config_groups", "\"" + escaped(pattern, 80) + "\" is no regular expression that is read");
  }
}

class Reader {
 public:
  Reader(const nlohmann::json& map, std::string where) : keys_(map, std::move(where)) { config_.where = keys_.where(); }

  QuantizationConfig read(const std::string& method) {
    if (method == "gptq") read_gptq();
    else if (method == "awq") read_awq();
    else if (method == "compressed-tensors") read_compressed_tensors();
    else if (method == "fp8") config_.method = LayoutMethod::fp8;
    else keys_.fail("quant_method", "\"" + method + "\" is not read", "gptq, awq, compressed-tensors, fp8");
    return config_;
  }
  std::string method() const { return keys_.find("quant_method") ? keys_.text("quant_method") : keys_.text("quant_type"); }

 private:
  /// The first of the keys that is there: the same thing has several names.
  std::int64_t whole(std::initializer_list<const char*> names, std::int64_t low, std::int64_t high) const {
    for (const char* name : names) {
      const nlohmann::json* value = keys_.find(name);
      if (!value) continue;
      if (!value->is_number_integer() || *value < low || *value > high) keys_.fail(name, "is " + value->dump(), std::to_string(low) + " to " + std::to_string(high));
      return value->get<std::int64_t>();
    }
    keys_.fail(*names.begin(), "missing key", std::to_string(low) + " to " + std::to_string(high));
  }
  std::string word(std::initializer_list<const char*> names, std::string otherwise) const {
    for (const char* name : names)
      if (keys_.find(name)) otherwise = keys_.text(name);
    std::ranges::transform(otherwise, otherwise.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return otherwise;
  }
  void read_group(std::initializer_list<const char*> names) {
    config_.group_size = whole(names, -1, std::int64_t{1} << 24);
    if (config_.group_size == 0) keys_.fail(*names.begin(), "is 0", "-1 (the whole row), or at least 1");
  }

  void read_gptq() {
    config_.method = LayoutMethod::gptq;
    config_.bits = static_cast<int>(whole({"bits"}, 2, 8));
    if (config_.bits > 4 && config_.bits < 8) keys_.fail("bits", "is " + std::to_string(config_.bits) + ", which is not read", "2, 3, 4, 8");
    read_group({"group_size"});
    config_.varies = keys_.find("dynamic") != nullptr;
    config_.symmetric = keys_.boolean_or("sym", false) && !config_.varies;
    const std::string version = word({"format", "checkpoint_format"}, "gptq");
    if (version != "gptq" && version != "gptq_v2") keys_.fail("checkpoint_format", "\"" + version + "\" is not read", "gptq, gptq_v2");
    config_.zeros_less_one = version == "gptq";
    if (const std::string word_type = word({"pack_dtype"}, "int32"); word_type != "int32") keys_.fail("pack_dtype", "\"" + word_type + "\" is not read", "int32");
  }

  void read_awq() {
    config_.method = LayoutMethod::awq;
    config_.bits = static_cast<int>(whole({"bits", "w_bit"}, 1, 8));
    if (config_.bits != 4) keys_.fail("bits", "is " + std::to_string(config_.bits) + ", which AWQ's layouts do not have", "4");
    read_group({"group_size", "q_group_size"});
    const std::string version = word({"format", "version"}, "gemm");
    if (version != "gemm" && version != "gemv") keys_.fail("version", "\"" + version + "\" is not read", "gemm, gemv");
    config_.gemv = version == "gemv";
  }

  void read_compressed_tensors() {
    config_.method = LayoutMethod::compressed_tensors;
    const std::string format = word({"format"}, "");
    constexpr std::string_view kFormats[] = {"float-quantized", "int-quantized", "naive-quantized"};
    if (std::ranges::find(kFormats, format) == std::end(kFormats))
      keys_.fail("format", "\"" + format + "\" is not read", "float-quantized, int-quantized, naive-quantized");
    const nlohmann::json& groups = keys_.at("config_groups");
    if (!groups.is_object()) keys_.fail("config_groups", "is no object");
    for (const auto& [name, group] : groups.items())
      if (!group.is_object() || !group.contains("targets") || !group["targets"].is_array()) keys_.fail("config_groups", name + " is no object with a list of targets");
    config_.groups = std::make_shared<const nlohmann::json>(groups);
  }

  JsonKeys keys_;
  QuantizationConfig config_;
};

}  // namespace

const nlohmann::json* QuantizationConfig::inputs_of(const std::string& module) const {
  if (!groups) return nullptr;
  const auto is_of = [&](const nlohmann::json& target, bool by_name) {
    if (!target.is_string()) return false;
    const auto& text = target.get_ref<const std::string&>();
    if (!by_name) return text == "Linear";
    if (!text.starts_with("re:")) return text == module;
    return matches(text.substr(3), module, where);
  };
  for (const bool by_name : {true, false}) {
    for (const auto& [name, group] : groups->items()) {
      if (std::ranges::none_of(group["targets"], [&](const nlohmann::json& target) { return is_of(target, by_name); })) continue;
      const auto found = group.find("input_activations");
      return found == group.end() || found->is_null() ? nullptr : &*found;
    }
  }
  return nullptr;
}

std::optional<QuantizationConfig> read_quantization_config(const std::string& folder) {
  const std::string path = folder + "/config.json", older = folder + "/quantize_config.json";
  if (!is_there(path)) return std::nullopt;
  const JsonFile config(path);
  if (!config.root().is_object()) return std::nullopt;  // whoever reads the model says so
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto found = config.value().find(key);
    if (found == config.value().end() || found->is_null()) continue;
    Reader reader(*found, config.name() + ": " + key);
    return reader.read(reader.method());
  }
  if (!is_there(older)) return std::nullopt;
  const JsonFile beside(older);
  return Reader(beside.value(), beside.name()).read("gptq");
}

std::string layout_name(const QuantizationConfig& config) {
  switch (config.method) {
    case LayoutMethod::gptq: return config.zeros_less_one ? "gptq" : "gptq_v2";
    case LayoutMethod::awq: return config.gemv ? "awq_gemv" : "awq";
    case LayoutMethod::compressed_tensors: return "compressed-tensors";
    case LayoutMethod::fp8: return "fp8";
  }
  return "";
}

}  // namespace patchbay
