// The keys under `base:`: read, checked against every plugin they name, and written back with all defaults.
#include "run_config.h"

#include <algorithm>

#include "kernel_choice.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "patchbay/transform.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

constexpr std::int64_t kMaxBatchedTokens = 1 << 20;
constexpr int kMaxLayers = 1 << 16;

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// A device is what a backend of the same name runs on.
void read_device(SettingsReader& reader, const Settings& base, RunConfig& config) {
  const std::vector<std::string> available = Registry::instance().names("backends");
  const Settings* device = reader.take("device");
  if (device != nullptr) {
    if (device->kind == Settings::Kind::map)
      throw Error(device->where, "a map where a device's name is expected", joined(available),
                  "options of a device stand under backend, which names it too: backend: {type: simt, checked: true}");
    config.device = read_text(*device);
    config.backend = {config.device, nullptr};
    if (std::find(available.begin(), available.end(), config.device) == available.end()) {
      throw Error(where_of(&base, "base", "device"), "no backend of this build runs on " + printable(config.device),
                  joined(available));
    }
  }
  reader.plugin("backend", config.backend, "backends", {});
  if (device == nullptr) config.device = config.backend.type;
  if (config.backend.type == config.device) return;
  throw Error(where_of(&base, "base", "backend"), config.backend.type + " does not run on device " + config.device, config.device,
              "give one of device and backend");
}

/// gpu_layers: all, or how many.
void read_gpu_layers(SettingsReader& reader, RunConfig& config) {
  const Settings* given = reader.take("gpu_layers");
  if (given == nullptr) return;
  if (kernel_backend(config.device) == "cpu") {
    throw Error(given->where, "device cpu has no such layers", "device cuda or simt", "leave the key out, or name a device");
  }
  config.gpu_layers_where = given->where;
  if (given->kind == Settings::Kind::scalar && given->text == "all") return;
  config.gpu_layers = static_cast<int>(read_integer(*given, 0, kMaxLayers, "all, or a number from 0"));
}

/// q8 or fp32; what is rounded to 8 bits is the host's.
void read_activations(SettingsReader& reader, const Settings& base, RunConfig& config) {
  const bool host = kernel_backend(config.device) == "cpu" || config.gpu_layers != kAllLayers;
  std::string activations = host ? "q8" : "fp32";
  if (const Settings* given = base.find("activations"); given && (given->text == "fp16" || given->text == "bf16"))
    throw Error(given->where, printable(given->text) + " is a type that a GPU computes in, and this key says how the host rounds its inputs", "q8, fp32", "backend.activations=" + given->text + " on device simt or cuda");
  reader.choice("activations", activations, {"q8", "fp32"}, {});
  config.activations = activations == "q8" ? ActivationMode::q8 : ActivationMode::fp32;
  if (host || config.activations == ActivationMode::fp32) return;
  throw Error(where_of(&base, "base", "activations"), "device " + config.device + " does not round its inputs to 8 bits (q8)",
              "fp32: as the device computes them, see backend.activations", "leave the key out");
}

/// True for a quantizer that leaves weights as the file stores them.
bool keeps_stored(const PluginSpec& quantizer) { return make<Quantizer>(quantizer)->keeps_stored(); }

/// A quantizer needs a format to write, and one that keeps what is stored must not be given any.
void check_pair(const WeightRule& rule, const std::string& where) {
  const std::string& name = rule.quantizer.type;
  if (keeps_stored(rule.quantizer)) {
    if (rule.format.type.empty()) return;
    throw Error(
        join_where(where, "format"),
        "quantizer " + name + " leaves weights as stored, so format " + rule.format.type + " has no effect", "",
        "name a quantizer beside it (weights.quantizer=rtn), or leave the format out (weights=" + name + " replaces both)");
  }
  if (!rule.format.type.empty()) return;
  throw Error(join_where(where, "format"), "quantizer " + name + " needs a format to write",
              joined(Registry::instance().names("formats")), "add weights.format");
}

/// The formats that have all of these parameters.
std::vector<std::string> formats_with(const Settings& parameters) {
  Registry& registry = Registry::instance();
  std::vector<std::string> found;
  for (const std::string& name : registry.names("formats")) {
    try {
      const std::vector<ParamInfo> params = registry.describe(registry.find("formats", name));
      const auto has = [&](const auto& entry) { return std::ranges::find(params, entry.first, &ParamInfo::name) != params.end(); };
      if (std::ranges::all_of(parameters.entries, has)) found.push_back(name);
    } catch (const Error&) {
      // A refused library is no help here; `patchbay list` says why.
    }
  }
  return found;
}

/// Of one type, what `own` does not state is as in `inherited`.
PluginSpec inheriting(const PluginSpec& own, const PluginSpec& inherited) {
  if (own.type != inherited.type || !inherited.settings) return own;
  Settings merged = own.settings ? *own.settings : Settings();
  merged.kind = Settings::Kind::map;
  for (const auto& entry : inherited.settings->entries)
    if (!merged.find(entry.first)) merged.entries.push_back(entry);
  return {own.type, std::make_shared<const Settings>(std::move(merged))};
}

/// Parameters of no format that is known: those that have them are of more help than that `type` is missing.
[[noreturn]] void refuse_without_type(const Settings& given, const WeightRule& inherited, const std::vector<std::string>& candidates) {
  std::string keys, stated;
  for (const auto& [key, value] : given.entries) {
    keys += (keys.empty() ? "" : ", ") + printable(key);
    stated += ", " + printable(key) + ": " + (value.kind == Settings::Kind::scalar ? printable(value.text) : "...");
  }
  const std::string where = join_where(given.where, "type"), &other = inherited.format.type;
  if (candidates.empty()) throw Error(where, "missing key, and no format has " + keys, joined(Registry::instance().names("formats")));
  const bool in_weights = inherited.match.empty() && other.empty();
  const std::string quantizer = keeps_stored(inherited.quantizer) ? ", and the quantizer that writes it: quantizer: rtn, " : ": ";
  throw Error(where, "missing key: of which format is " + keys + (other.empty() ? "" : "? Not of weights.format, " + other), joined(candidates),
              in_weights ? "name it, and the quantizer that writes it: weights.quantizer=rtn weights.format.type=" + candidates.front()
                         : "name it" + quantizer + "format: {type: " + candidates.front() + stated + "}");
}

/// What a rule, a candidate or weights itself (which inherits nothing) states of a format. Without a type the parameters are of the inherited one.
PluginSpec format_spec(const Settings& given, const WeightRule& inherited) {
  Registry& registry = Registry::instance();
  const bool stated = given.kind != Settings::Kind::map || given.find("type") != nullptr || given.entries.empty();
  if (!stated) {
    const auto candidates = formats_with(given);
    if (std::ranges::find(candidates, inherited.format.type) == candidates.end()) refuse_without_type(given, inherited, candidates);
  }
  return inheriting(registry.without_alias("formats", plugin_spec(given, "format", stated ? "" : inherited.format.type)), inherited.format);
}

/// What the entry states of quantizer and format; the rest stays as it is in `rule`.
void read_quantizer_and_format(SettingsReader& reader, WeightRule& rule) {
  const PluginSpec before = rule.quantizer;
  reader.plugin("quantizer", rule.quantizer, "quantizers", {});
  rule.quantizer = inheriting(rule.quantizer, before);
  const Settings* format = reader.take("format");
  if (format != nullptr) rule.format = format_spec(*format, rule);
  // A rule that goes back to the stored weights does not inherit the format it has no use for.
  else if (rule.quantizer.type != before.type && keeps_stored(rule.quantizer))
    rule.format = {};
}

WeightRule read_rule(const Settings& entry, const WeightRule& inherited) {
  WeightRule rule = inherited;
  SettingsReader reader(&entry, "rule");
  reader.text("match", rule.match, {});
  read_quantizer_and_format(reader, rule);
  reader.finish();
  if (rule.match.empty())
    throw Error(where_of(&entry, "rule", "match"), "missing value", "a pattern of tensor names: \"*.ffn_down\"");
  check_pair(rule, entry.where);
  return rule;
}

void read_transforms(const Settings& given, RunConfig& config) {
  if (given.kind != Settings::Kind::list) throw Error(given.where, "no list of transforms", "[awq, {type: smoothquant, alpha: 0.5}]");
  for (const Settings& item : given.items) config.transforms.push_back(plugin_spec(item, "transforms"));
}

void read_calibration(const Settings& given, CalibrationSettings& calibration) {
  read_settings(&given, "calibration", [&](Fields& fields) { calibration.visit(fields); });
  try {
    calibration.check();
  } catch (const Error& error) {
    throw Error(given.where, error.problem(), error.allowed());
  }
}

/// A number of bits of the format that is there, or a format as in a rule.
PluginSpec candidate_of(const Settings& item, const WeightRule& weights) {
  if (item.kind != Settings::Kind::scalar || scalar_type(item) != ScalarType::integer) return format_spec(item, weights);
  Settings bits;
  bits.kind = Settings::Kind::map;
  bits.where = item.where;
  bits.entries.emplace_back("bits", item);
  return inheriting({weights.format.type, std::make_shared<const Settings>(std::move(bits))}, weights.format);
}

void read_sensitivity(const Settings& given, RunConfig& config) {
  SettingsReader reader(&given, "bits_by_sensitivity");
  SensitivitySettings& sensitivity = config.sensitivity;
  sensitivity.visit(reader);
  const Settings* candidates = reader.take("candidates");
  const std::string where = where_of(&given, "bits_by_sensitivity", "candidates");
  constexpr const char* kExample = "two or more of [2, 3, 4, {type: q4_k}]: numbers of bits of weights.format, or formats";
  if (candidates == nullptr || candidates->kind != Settings::Kind::list || candidates->items.size() < 2) throw Error(where, "no list of candidates", kExample);
  if (config.weights.format.type.empty()) throw Error(given.where, "nothing is quantised that could get other bits", "weights.quantizer and weights.format beside it");
  for (const Settings& item : candidates->items) sensitivity.candidates.push_back(candidate_of(item, config.weights));
  if (!sensitivity.on()) throw Error(where_of(&given, "bits_by_sensitivity", "budget"), "missing value", "bits per weight, scales included: 3.5");
  reader.finish();
}

Settings sensitivity_settings(const SensitivitySettings& sensitivity, std::string_view backend) {
  Settings map, candidates;
  map.kind = Settings::Kind::map;
  candidates.kind = Settings::Kind::list;
  for (const PluginSpec& spec : sensitivity.candidates) candidates.items.push_back(Registry::instance().effective("formats", spec, backend));
  map.entries = {{"budget", plain_settings(real_text(sensitivity.budget))}, {"candidates", std::move(candidates)}, {"measure", text_settings(sensitivity.measure)},
                 {"per", text_settings(sensitivity.per)}, {"tokens", plain_settings(std::to_string(sensitivity.tokens))}};
  return map;
}

/// weights: a quantizer's name, or {quantizer, format, transforms, calibration, rules, targets, bits_by_sensitivity}. (`type` is what an assignment such as weights.targets=all
/// makes of a bare name.)
void read_weights(const Settings& given, RunConfig& config) {
  if (given.kind != Settings::Kind::map) {
    config.weights.quantizer = plugin_spec(given, "weights");
    check_pair(config.weights, given.where);
    return;
  }
  SettingsReader reader(&given, "weights");
  if (const Settings* type = reader.take("type")) config.weights.quantizer = plugin_spec(*type, "weights");
  read_quantizer_and_format(reader, config.weights);
  std::string targets = "blocks";
  reader.choice("targets", targets, {"blocks", "all"}, {});
  config.quantize_all = targets == "all";
  if (const Settings* kernel = reader.take("kernel")) {
    for (const auto& [phase, name] : asked_kernels(*kernel)) read_text(*name);
    config.weight_kernel = std::make_shared<const Settings>(*kernel);
  }
  if (const Settings* transforms = reader.take("transforms")) read_transforms(*transforms, config);
  if (const Settings* calibration = reader.take("calibration")) read_calibration(*calibration, config.calibration);
  if (const Settings* sensitivity = reader.take("bits_by_sensitivity")) read_sensitivity(*sensitivity, config);
  const Settings* rules = reader.take("rules");
  reader.finish();
  check_pair(config.weights, given.where);
  if (rules == nullptr) return;
  if (rules->kind != Settings::Kind::list) throw Error(rules->where, "no list of rules", "[{match, quantizer, format}, ...]");
  for (const Settings& entry : rules->items) config.rules.push_back(read_rule(entry, config.weights));
}

void read_processors(const Settings& given, RunConfig& config) {
  if (given.kind != Settings::Kind::list)
    throw Error(given.where, "no list of processors", "[temperature, {type: top_k, k: 40}]");
  for (const Settings& item : given.items) config.processors.push_back(plugin_spec(item, "processors"));
}

/// The rule as settings, every parameter in effect.
Settings rule_settings(const WeightRule& rule, std::string_view backend) {
  Settings map;
  map.kind = Settings::Kind::map;
  if (!rule.match.empty()) map.entries.emplace_back("match", text_settings(rule.match));
  map.entries.emplace_back("quantizer", Registry::instance().effective("quantizers", rule.quantizer));
  if (!rule.format.type.empty()) map.entries.emplace_back("format", Registry::instance().effective("formats", rule.format, backend));
  return map;
}

Settings calibration_settings(const CalibrationSettings& calibration) {
  Settings map;
  map.kind = Settings::Kind::map;
  if (calibration.from_model()) map.entries.emplace_back("source", text_settings(calibration.source));
  else if (!calibration.prompts.empty()) map.entries.emplace_back("prompts", text_settings(calibration.prompts));
  else map.entries.emplace_back("text", text_settings(calibration.text_path()));
  for (const auto& [key, value] : {std::pair("samples", calibration.samples), {"length", calibration.length}, {"seed", calibration.seed}})
    map.entries.emplace_back(key, plain_settings(std::to_string(value)));
  return map;
}

Settings weights_settings(const RunConfig& config) {
  const std::string_view backend = kernel_backend(config.device);
  Settings map = rule_settings(config.weights, backend);
  if (!config.rules.empty()) {
    Settings rules;
    rules.kind = Settings::Kind::list;
    for (const WeightRule& rule : config.rules) rules.items.push_back(rule_settings(rule, backend));
    map.entries.emplace_back("rules", rules);
  }
  if (config.weight_kernel) map.entries.emplace_back("kernel", *config.weight_kernel);
  if (!config.transforms.empty()) {
    Settings transforms;
    transforms.kind = Settings::Kind::list;
    for (const PluginSpec& spec : config.transforms) transforms.items.push_back(Registry::instance().effective("transforms", spec));
    map.entries.emplace_back("transforms", transforms);
  }
  if (needs_calibration(config)) map.entries.emplace_back("calibration", calibration_settings(config.calibration));
  if (config.sensitivity.on()) map.entries.emplace_back("bits_by_sensitivity", sensitivity_settings(config.sensitivity, backend));
  map.entries.emplace_back("targets", text_settings(config.quantize_all ? "all" : "blocks"));
  return map;
}

}  // namespace

bool needs_calibration(const RunConfig& config) {
  const auto needs = [](const WeightRule& rule) {
    const auto quantizer = make<Quantizer>(rule.quantizer);
    return !quantizer->keeps_stored() && (quantizer->needs() | make<WeightFormat>(rule.format)->needs()).any();
  };
  if (config.sensitivity.on() || needs(config.weights) || std::ranges::any_of(config.rules, needs)) return true;
  return std::ranges::any_of(config.transforms, [](const PluginSpec& spec) { return make<Transform>(spec)->needs().any(); });
}

RunConfig read_run_config(const Settings& base) {
  RunConfig config;
  const bool absent = base.kind == Settings::Kind::null && base.where.empty();
  SettingsReader reader(absent ? nullptr : &base, "base");
  read_device(reader, base, config);
  if (const Settings* weights = reader.take("weights")) read_weights(*weights, config);
  reader.plugin("attention", config.attention, "attention", {});
  reader.plugin("kv_store", config.kv_store, "kv_stores", {});
  reader.plugin("kv_retention", config.kv_retention, "kv_retention", {});
  reader.plugin("kv_prefix", config.kv_prefix, "kv_prefix", {});
  reader.plugin("decoder", config.decoder, "decoders", {});
  if (const Settings* processors = reader.take("processors")) read_processors(*processors, config);
  read_gpu_layers(reader, config);
  read_activations(reader, base, config);
  reader.integer("max_batched_tokens", config.max_batched_tokens, 1, kMaxBatchedTokens, {});
  reader.boolean("deterministic", config.deterministic, {});
  reader.integer("threads", config.threads, 0, kMaxThreads, {});
  reader.finish();
  effective_settings(config);  // reads every plugin's own parameters
  const std::string_view backend = kernel_backend(config.device);
  config.attention = attention_on(config, backend);
  if (!config.weights.format.type.empty()) config.weights.format = format_on(config.weights.format, config, backend);
  for (PluginSpec& candidate : config.sensitivity.candidates) candidate = format_on(candidate, config, backend);
  for (WeightRule& rule : config.rules) {
    if (!rule.format.type.empty()) rule.format = format_on(rule.format, config, backend);
  }
  return config;
}

Settings effective_settings(const RunConfig& config) {
  Registry& registry = Registry::instance();
  const std::string_view backend = kernel_backend(config.device);
  Settings map, processors;
  map.kind = Settings::Kind::map;
  processors.kind = Settings::Kind::list;
  for (const PluginSpec& spec : config.processors) processors.items.push_back(registry.effective("processors", spec));
  map.entries = {
      {"device", text_settings(config.device)},
      {"backend", registry.effective("backends", config.backend, backend)},
      {"weights", weights_settings(config)},
      {"attention", registry.effective("attention", config.attention, backend)},
      {"kv_store", registry.effective("kv_stores", config.kv_store, backend)},
      {"kv_retention", registry.effective("kv_retention", config.kv_retention)},
      {"kv_prefix", registry.effective("kv_prefix", config.kv_prefix)},
      {"decoder", registry.effective("decoders", config.decoder)},
      {"processors", std::move(processors)},
      {"activations", text_settings(config.activations == ActivationMode::q8 ? "q8" : "fp32")},
      {"max_batched_tokens", plain_settings(std::to_string(config.max_batched_tokens))},
      {"deterministic", plain_settings(config.deterministic ? "true" : "false")},
  };
  if (config.gpu_layers != kAllLayers) map.entries.emplace_back("gpu_layers", plain_settings(std::to_string(config.gpu_layers)));
  return map;
}

}  // namespace patchbay
