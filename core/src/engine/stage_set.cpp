#include "engine/stage_set.h"

#include <algorithm>

#include "kernel_choice.h"
#include "patchbay/plugin.h"
#include "registry.h"

namespace patchbay {
namespace {

/// With one setting more, if the backend has such a parameter.
PluginSpec with_setting(PluginSpec backend, const std::string& name, const std::string& text) {
  Registry& registry = Registry::instance();
  const std::vector<ParamInfo> params = registry.describe(registry.find("backends", backend.type));
  if (std::ranges::find(params, name, &ParamInfo::name) == params.end()) return backend;
  auto settings = backend.settings ? std::make_shared<Settings>(*backend.settings) : std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  std::erase_if(settings->entries, [&](const auto& entry) { return entry.first == name; });
  Settings value;
  value.kind = Settings::Kind::scalar;
  value.text = text;
  value.where = name;
  settings->entries.emplace_back(name, value);
  backend.settings = settings;
  return backend;
}
/// With the run's number of threads.
PluginSpec with_threads(PluginSpec backend, int threads) {
  return threads == 0 ? backend : with_setting(std::move(backend), "threads", std::to_string(threads));
}
/// activations: auto is the model's own type.
PluginSpec for_model(PluginSpec backend, const ModelSpec& spec) {
  const Settings* given = backend.settings ? backend.settings->find("activations") : nullptr;
  if (given && given->text != "auto") return backend;
  return with_setting(std::move(backend), "activations", spec.native_type == DType::bf16 ? "bf16" : "fp16");
}

/// "x", or "layers 0 to 2: x; layers 3 to 5: y".
template <class Text>
std::string by_stage(const std::vector<StageParts>& parts, Text text) {
  if (parts.size() == 1) return text(parts[0]);
  std::string all;
  for (const StageParts& part : parts) {
    all += (all.empty() ? "layers " : "; layers ") + std::to_string(part.first) + " to " + std::to_string(part.first + part.count - 1) +
           ": " + text(part);
  }
  return all;
}

}  // namespace

StageSet::StageSet(const ModelSpec& spec, const RunConfig& config)
    : backend_(make<Backend>(for_model(with_threads(config.backend, config.threads), spec))),
      host_(backend_->device().is_host() ? backend_ : make<Backend>(with_threads(RunConfig{}.backend, config.threads))) {
  const bool host = backend_->device().is_host();
  const int on_device = host || config.gpu_layers == kAllLayers ? spec.layers : config.gpu_layers;
  if (on_device > spec.layers) {
    throw Error(config.gpu_layers_where, std::to_string(on_device) + " are asked for and the model has " + std::to_string(spec.layers),
                "0 to " + std::to_string(spec.layers) + ", or all");
  }
  const int first = spec.layers - on_device;
  placement_ = {&host_->ops(), &backend_->ops(), on_device > 0 ? first : spec.layers + 1};
  if (first > 0) add_stage(config, *host_, 0, first);
  if (on_device > 0) add_stage(config, *backend_, first, on_device);
  if (stores_.size() > 1) split_ = std::make_unique<SplitStore>(std::vector{stores_[0].get(), stores_[1].get()});
}

void StageSet::add_stage(const RunConfig& config, Backend& backend, int first, int count) {
  const bool host = backend.device().is_host();
  const std::string where = "attention " + config.attention.type + (host ? "" : " on device " + config.device);
  attentions_.push_back(make<Attention>(attention_on(config, host ? "cpu" : "cuda")));
  try {
    attentions_.back()->prepare(backend.device());
  } catch (const Error& error) {
    throw error.at(where);
  }
  stores_.push_back(make<KvStore>(config.kv_store));
  // The host can decode a cache for attention; a device has no second form of it.
  const KvFormat& format = stores_.back()->format();
  if (!host && !attentions_.back()->reads(format.layout())) {
    throw Error(where, "it cannot read a cache of " + std::string(format.name()), "", "take another kv_store.format or attention");
  }
  parts_.push_back({first, count, &backend.ops(), attentions_.back().get(), stores_.back().get()});
}

void StageSet::configure(const ModelSpec& spec, std::int64_t max_tokens, int max_sequences) {
  for (const StageParts& part : parts_) {
    part.store->configure({part.count, spec.kv_heads, spec.head_size, max_tokens, max_sequences}, part.ops->device());
  }
}

std::string StageSet::attention_path() const {
  return by_stage(parts_, [](const StageParts& part) { return part.attention->path(); });
}
std::string StageSet::activations(ActivationMode mode) const {
  return by_stage(parts_, [mode](const StageParts& part) -> std::string {
    const Device& device = part.ops->device();
    if (device.is_host()) return mode == ActivationMode::q8 ? "q8" : "fp32";
    return std::string(name_of(device.activations()));
  });
}
std::string StageSet::operations_path() const {
  return by_stage(parts_, [](const StageParts& part) { return std::string(part.ops->kernel()); });
}

}  // namespace patchbay
