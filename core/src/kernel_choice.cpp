// Which kernels attention and weights run: what settings name, as far as the place where they run has it.
#include "kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "config.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

/// The parameter by which a plugin's kernels are chosen; nothing: it has none.
std::optional<ParamInfo> kernel_parameter(std::string_view kind, const std::string& type) {
  Registry& registry = Registry::instance();
  for (ParamInfo& param : registry.describe(registry.find(kind, type)))
    if (!param.kernels.empty()) return std::move(param);
  return {};
}

PluginSpec with_setting(PluginSpec spec, const std::string& name, Settings value) {
  Settings settings = spec.settings ? *spec.settings : Settings();
  settings.kind = Settings::Kind::map;
  settings.entries.emplace_back(name, std::move(value));
  spec.settings = std::make_shared<Settings>(std::move(settings));
  return spec;
}

/// With deterministic: true, on a GPU, the plugin with one kernel for prefill and decoding, if it has a choice and none was made: the best
/// that serves both.
PluginSpec with_one_kernel(std::string_view kind, PluginSpec spec, const RunConfig& config, std::string_view backend) {
  if (!config.deterministic || backend != "cuda") return spec;
  const auto param = kernel_parameter(kind, spec.type);
  if (!param) return spec;
  std::string best;
  for (const KernelInfo& kernel : param->kernels) {
    if (kernel.backend == "cuda" && kernel.phases == "both" && is_available(kernel)) best = kernel.name;
  }
  if (best.empty()) return spec;
  const Settings* given = spec.settings ? spec.settings->find(param->name) : nullptr;
  if (given == nullptr) return with_setting(std::move(spec), param->name, text_settings(best));
  const KernelChoice choice = read_kernel(*given, param->kernels);
  if (choice.prefill == choice.decode) return spec;
  throw Error(given->where, "deterministic: true, and prefill and decoding have different kernels", "one name", "take " + best);
}

/// What `kernel` names, one name or one per phase, as far as a technique has it for the backend and this machine can run it; a null scalar: nothing.
Settings kernels_on(const Settings& kernel, const ParamInfo& param, std::string_view backend) {
  const auto lacks = [&](const std::string& phase, const Settings& name) {
    return std::ranges::none_of(param.kernels, [&](const KernelInfo& each) {
      return each.name == name.text && each.backend == backend && serves(each, phase) && is_available(each);
    });
  };
  Settings chosen = kernel;
  std::erase_if(chosen.entries, [&](const auto& entry) { return lacks(entry.first, entry.second); });
  const bool none = kernel.kind == Settings::Kind::map ? chosen.entries.empty() : lacks("", kernel);
  return none ? Settings() : chosen;
}

/// Of a model that is split, the plugin without the kernels that are another backend's.
PluginSpec with_kernels_of(std::string_view kind, PluginSpec spec, const RunConfig& config, std::string_view backend) {
  if (config.gpu_layers == kAllLayers) return spec;
  const auto param = kernel_parameter(kind, spec.type);
  const Settings* given = param && spec.settings ? spec.settings->find(param->name) : nullptr;
  if (given == nullptr) return spec;
  Settings kept = kernels_on(*given, *param, backend), settings = *spec.settings;
  std::erase_if(settings.entries, [&](const auto& entry) { return entry.first == param->name; });
  if (kept.kind != Settings::Kind::null) settings.entries.emplace_back(param->name, std::move(kept));
  spec.settings = std::make_shared<Settings>(std::move(settings));
  return spec;
}

/// The format with weights.kernel, as far as it has that on the backend and names none itself.
PluginSpec with_weight_kernel(PluginSpec format, const Settings& kernel, std::string_view backend) {
  const auto param = kernel_parameter("formats", format.type);
  if (!param || (format.settings && format.settings->find(param->name))) return format;
  Settings chosen = kernels_on(kernel, *param, backend);
  return chosen.kind == Settings::Kind::null ? format : with_setting(std::move(format), param->name, std::move(chosen));
}

/// All that weights.kernel may name for a phase ("" any) on this machine.
std::vector<std::string> kernels_of_formats(const std::vector<std::string>& formats, std::string_view phase, const RunConfig& config) {
  const bool split = config.gpu_layers != kAllLayers;
  std::vector<std::string> names;
  for (const std::string& format : formats) {
    const auto param = kernel_parameter("formats", format);
    if (!param) continue;
    for (const KernelInfo& kernel : param->kernels) {
      const bool runs = kernel.backend == kernel_backend(config.device) || (split && kernel.backend == "cpu");
      const bool is_new = std::ranges::find(names, kernel.name) == names.end();
      if (runs && is_new && serves(kernel, phase) && is_available(kernel)) names.emplace_back(kernel.name);
    }
  }
  return names;
}

}  // namespace

std::string_view kernel_backend(const std::string& device) { return device == "simt" ? "cuda" : std::string_view(device); }

std::vector<std::pair<std::string, const Settings*>> asked_kernels(const Settings& kernel) {
  if (kernel.kind != Settings::Kind::map) return {{"", &kernel}};
  refuse_unknown(kernel, "kernel", std::vector<std::string>{"prefill", "decode"});
  std::vector<std::pair<std::string, const Settings*>> asked;
  for (const auto& [phase, name] : kernel.entries) asked.emplace_back(phase, &name);
  return asked;
}

PluginSpec attention_on(const RunConfig& config, std::string_view backend) {
  return with_one_kernel("attention", with_kernels_of("attention", config.attention, config, backend), config, backend);
}

PluginSpec format_on(PluginSpec format, const RunConfig& config, std::string_view backend) {
  format = with_kernels_of("formats", std::move(format), config, backend);
  if (config.weight_kernel) format = with_weight_kernel(std::move(format), *config.weight_kernel, backend);
  return with_one_kernel("formats", std::move(format), config, backend);
}

void check_weight_kernel(const RunConfig& config, const std::vector<std::string>& formats) {
  if (!config.weight_kernel) return;
  for (const auto& [phase, name] : asked_kernels(*config.weight_kernel)) {
    const std::vector<std::string> known = kernels_of_formats(formats, phase, config);
    if (std::ranges::find(known, name->text) != known.end()) continue;
    const std::string near = suggestion(name->text, known), which = phase.empty() ? "" : " for " + phase;
    throw Error(name->where, fmt::format("none of the weights' formats ({}) has a kernel {}{} on device {}", fmt::join(formats, ", "),
                                         printable(name->text), which, config.device),
                fmt::format("{}", fmt::join(known, ", ")), near.empty() ? "" : "did you mean " + near + "?");
  }
}

}  // namespace patchbay
