#include "profile_scene.h"

#include <fmt/format.h>

#include <algorithm>

#include "config.h"
#include "gpu/profiler.h"
#include "registry.h"
#include "run_config.h"

namespace patchbay::app {
namespace {

/// The kernels that a technique may be told by name: its parameter `kernel`.
std::vector<KernelInfo> kernels_of(const Scene& scene) {
  Registry& registry = Registry::instance();
  for (const ParamInfo& param : registry.describe(registry.find(scene.kind, scene.name)))
    if (param.name == "kernel") return param.kernels;
  return {};
}

}  // namespace

PluginSpec emulated_backend(const Settings* settings) {
  Settings all = parse_value(kEmulatedDevice, "backend");
  if (settings != nullptr)
    for (const auto& [key, value] : settings->entries) {
      if (all.find(key)) throw Error(key, "is not profile's to change: kernels are counted on the checked emulator");
      all.entries.emplace_back(key, value);
    }
  return plugin_spec(all, "backend");
}

Scene::Scene(const ProfileOptions& given, std::string its_kind, std::string its_name, std::initializer_list<std::string_view> uses)
    : options(given), kind(std::move(its_kind)), name(std::move(its_name)) {
  own.kind = others.kind = Settings::Kind::map;
  for (const std::string& assignment : options.model.assignments) {
    const std::string key = assignment.substr(0, assignment.find_first_of(".="));
    apply_assignment(std::ranges::find(uses, key) != uses.end() ? others : own, assignment);
  }
  if (kind != KindOf<Backend>::value && !options.kernel.empty()) set_path(own, "kernel", parse_value(options.kernel, "kernel"));
  backend = make<Backend>(emulated_backend(others.find("backend")));
}

PluginSpec Scene::other(const char* key, const std::string& default_type) const {
  const Settings* given = others.find(key);
  return given ? plugin_spec(*given, key, default_type) : PluginSpec{default_type, nullptr};
}

void allow_options(const ProfileOptions& o, const std::string& what, std::initializer_list<std::string_view> allowed) {
  const std::pair<std::string_view, bool> given[] = {{"--kernel", !o.kernel.empty()}, {"--op", !o.op.empty()}, {"--rows", o.rows.has_value()},
                                                     {"--cols", o.cols.has_value()}, {"--tokens", o.tokens.has_value()}, {"--heads", o.heads.has_value()},
                                                     {"--kv-heads", o.kv_heads.has_value()}, {"--head-size", o.head_size.has_value()},
                                                     {"--context", o.context.has_value()}, {"--prompt", o.prompt.has_value()},
                                                     {"--generate", o.generate.has_value()}, {"--threads", o.model.threads != 0}};
  for (const auto& [option, is_given] : given)
    if (is_given && std::ranges::find(allowed, option) == allowed.end())
      throw Error(std::string(option), "says nothing of " + what, fmt::format("{}", fmt::join(allowed, ", ")));
}

std::int64_t count_of(const char* option, const ProfileOptions::Count& given, std::int64_t otherwise, std::int64_t least) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t count = given.value_or(otherwise);
  if (count < least || count > kMost) throw Error(option, fmt::format("{} is no count", count), fmt::format("{} to {}", least, kMost));
  return count;
}

void require_phase(const Scene& scene, std::int64_t tokens, std::int64_t decode_tokens) {
  std::string asked = scene.options.kernel;
  if (const Settings* setting = scene.own.find("kernel"); asked.empty() && setting && setting->kind == Settings::Kind::scalar) asked = setting->text;
  const std::string_view phase = tokens <= decode_tokens ? "decode" : "prefill";
  for (const KernelInfo& kernel : kernels_of(scene)) {
    if (asked != kernel.name || kernel.phases == "both" || kernel.phases == phase) continue;
    const std::string few = decode_tokens == 1 ? "--tokens 1" : fmt::format("--tokens 1 to {}", decode_tokens), many = fmt::format("--tokens {} or more", decode_tokens + 1);
    throw Error("--kernel", fmt::format("{} is for phase {}, and a step of {} is {}: another kernel would run", kernel.name, kernel.phases,
                                        tokens == 1 ? "1 token" : fmt::format("{} tokens", tokens), phase),
                phase == "decode" ? many : few);
  }
}

std::vector<gpu::KernelCounters> counted_launches(FunctionRef<void()> body) {
  gpu::Profiler profiler;
  body();
  return profiler.launches();
}

CachedStep cached_step(const Scene& scene, const CachedStep::Shape& shape) {
  return CachedStep(scene.ops(), make<KvStore>(scene.other("kv_store", RunConfig{}.kv_store.type)), shape);
}

}  // namespace patchbay::app
