// Fields that read: a plugin's `visit` meets the settings of YAML and of the command line.
#include "patchbay/params.h"

#include <algorithm>
#include <utility>

#include "config.h"
#include "patchbay/plugin.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

template <class Names>
std::string joined(const Names& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = suggestion(name, candidates);
  return near.empty() ? "" : "did you mean " + near + "?";
}

/// The names that could have been given: of a phase ("" any) and a backend ("" any: "plain, avx2; of cuda: tiled"), as far as this machine
/// has them.
std::string kernel_names(std::span<const KernelInfo> kernels, std::string_view phase, std::string_view backend) {
  std::string list;
  std::string_view named = backend.empty() && !kernels.empty() ? kernels.front().backend : backend;
  for (const KernelInfo& k : kernels) {
    if (!serves(k, phase) || !is_available(k) || (!backend.empty() && k.backend != backend)) continue;
    if (k.backend == named) list += list.empty() ? "" : ", ";
    else list += (list.empty() ? "of " : "; of ") + std::string(k.backend) + ": ";
    named = k.backend;
    list += k.name;
  }
  return list;
}

/// The kernel of that name for a phase ("" any). `backend` is the one that is to run, if that is known. @throws Error: unknown, of
/// another backend, or not on this machine.
const KernelInfo& find_kernel(std::string_view name, std::span<const KernelInfo> kernels, const std::string& where,
                              std::string_view phase, std::string_view backend) {
  std::vector<std::string> names;
  const KernelInfo* elsewhere = nullptr;
  for (const KernelInfo& k : kernels) {
    if (!serves(k, phase)) continue;
    if (!backend.empty() && k.backend != backend) {
      if (k.name == name) elsewhere = &k;
      continue;
    }
    if (k.name == name) {
      if (is_available(k)) return k;
      throw Error(where, "kernel " + std::string(name) + " cannot run on this machine", kernel_names(kernels, phase, backend));
    }
    names.emplace_back(k.name);
  }
  if (elsewhere != nullptr)
    throw Error(where, "kernel " + std::string(name) + " is of backend " + std::string(elsewhere->backend) + ", and what is to run is of backend " +
                           std::string(backend), kernel_names(kernels, phase, backend));
  const std::string which = phase.empty() ? "" : std::string(phase) + " ";
  throw Error(where, "unknown " + which + "kernel " + printable(name), kernel_names(kernels, phase, backend), did_you_mean(name, names));
}

std::string kernel_of_phase(const Settings& value, std::span<const KernelInfo> kernels, std::string_view phase, std::string_view backend) {
  const std::string name = read_text(value);
  find_kernel(name, kernels, value.where, phase, backend);
  return name;
}

}  // namespace

std::string join_where(std::string_view where, std::string_view key) {
  std::string text(where);
  // "a.yaml:3" and "command line" are places only; a path follows after ": ".
  if (!text.empty()) text += text.find(": ") == std::string::npos ? ": " : ".";
  return text + printable(key);
}

std::string where_of(const Settings* map, std::string_view label, std::string_view key) {
  if (map == nullptr) return join_where(std::string(label), key);
  const Settings* value = map->find(key);
  if (value != nullptr && !value->where.empty()) return value->where;
  return join_where(map->where.empty() ? label : std::string_view(map->where), key);
}

void refuse_unknown(const Settings& map, std::string_view label, std::span<const std::string> known) {
  for (const auto& [key, value] : map.entries) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Error(where_of(&map, label, key), "unknown parameter", known.empty() ? "none (it has no parameters)" : joined(known),
                did_you_mean(key, known));
  }
}

KernelChoice read_kernel(const Settings& value, std::span<const KernelInfo> kernels, std::string_view backend) {
  // Where the backend has none of these kernels, host code does the work.
  if (std::ranges::find(kernels, backend, &KernelInfo::backend) == kernels.end()) backend = {};
  if (value.kind != Settings::Kind::map) {
    const std::string name = read_text(value);
    const KernelInfo& kernel = find_kernel(name, kernels, value.where, "", backend);
    // A kernel of one phase, named alone, leaves the other phase to the default.
    return {kernel.phases == "decode" ? "" : name, kernel.phases == "prefill" ? "" : name};
  }
  const std::vector<std::string> phases = {"prefill", "decode"};
  refuse_unknown(value, "kernel", phases);
  KernelChoice choice;
  if (const Settings* prefill = value.find("prefill")) choice.prefill = kernel_of_phase(*prefill, kernels, "prefill", backend);
  if (const Settings* decode = value.find("decode")) choice.decode = kernel_of_phase(*decode, kernels, "decode", backend);
  return choice;
}

const KernelInfo& pick_kernel(std::string_view asked, std::span<const KernelInfo> kernels, std::string_view technique,
                              std::string_view phase, std::string_view backend) {
  if (phase == "both") phase = "";
  if (!asked.empty()) return find_kernel(asked, kernels, std::string(technique), phase, backend);
  for (auto kernel = kernels.rbegin(); kernel != kernels.rend(); ++kernel) {
    if (kernel->backend == backend && serves(*kernel, phase) && is_available(*kernel)) return *kernel;
  }
  throw Error(std::string(technique), "no kernel runs on this machine", kernel_names(kernels, phase, backend));
}

SettingsReader::SettingsReader(const Settings* settings, std::string_view label, std::string_view backend)
    : settings_(settings), label_(label), backend_(backend) {
  require_map();
}

void SettingsReader::require_map() const {
  if (settings_ == nullptr || settings_->kind == Settings::Kind::map) return;
  const std::string where = settings_->where.empty() ? label_ : settings_->where;
  if (scalar_type(*settings_) == ScalarType::null) throw Error(where, "missing value", "a map of parameters");
  throw Error(where, std::string(settings_->kind == Settings::Kind::list ? "a list" : "one value") + " where a map is expected",
              "a map of parameters");
}

void SettingsReader::finish() const {
  if (settings_ != nullptr) refuse_unknown(*settings_, label_, known_);
}

const Settings* SettingsReader::take(const char* name) {
  known_.emplace_back(name);
  const Settings* value = settings_ == nullptr ? nullptr : settings_->find(name);
  if (value == nullptr || !value->where.empty()) return value;
  placed_ = *value;
  placed_.where = where_of(settings_, label_, name);
  return &placed_;
}

void SettingsReader::integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, Doc) {
  if (const Settings* given = take(name)) value = read_integer(*given, low, high);
}
void SettingsReader::real(const char* name, double& value, double low, double high, Doc) {
  if (const Settings* given = take(name)) value = read_real(*given, low, high);
}
void SettingsReader::boolean(const char* name, bool& value, Doc) {
  if (const Settings* given = take(name)) value = read_boolean(*given);
}
void SettingsReader::text(const char* name, std::string& value, Doc) {
  if (const Settings* given = take(name)) value = read_text(*given);
}
void SettingsReader::choice(const char* name, std::string& value, std::initializer_list<std::string_view> allowed, Doc) {
  const std::vector<std::string> names(allowed.begin(), allowed.end());
  if (const Settings* given = take(name)) value = read_choice(*given, names);
}
void SettingsReader::choice(const char* name, int& value, std::initializer_list<int> allowed, Doc) {
  const Settings* given = take(name);
  if (given == nullptr) return;
  std::vector<std::string> numbers;
  for (const int each : allowed) numbers.push_back(std::to_string(each));
  const std::int64_t number = read_integer(*given, std::min(allowed), std::max(allowed), joined(numbers));
  if (std::find(allowed.begin(), allowed.end(), number) == allowed.end()) {
    throw Error(given->where, printable(given->text) + " is out of range", joined(numbers));
  }
  value = static_cast<int>(number);
}
void SettingsReader::kernel(const char* name, KernelChoice& value, std::span<const KernelInfo> kernels, Doc) {
  if (const Settings* given = take(name)) value = read_kernel(*given, kernels, backend_);
}
void SettingsReader::plugin(const char* name, PluginSpec& value, std::string_view kind, Doc) {
  const Settings* given = take(name);
  Registry& registry = Registry::instance();
  if (given != nullptr) value = registry.without_alias(kind, plugin_spec(*given, name, value.type));
  if (value.type.empty()) throw Error(where_of(settings_, label_, name), "missing value", joined(registry.names(kind)));
  if (given == nullptr) return;
  const Settings* type = given->find("type");
  try {
    registry.find(kind, value.type);
  } catch (const Error& error) {
    throw error.at(type != nullptr && !type->where.empty() ? type->where : given->where);
  }
}

void SettingsReader::group(const char* name, FunctionRef<void(Fields&)> visit, Doc) {
  const Settings* given = take(name);
  const Settings own = given != nullptr ? *given : Settings();
  const Settings* const outer = std::exchange(settings_, given != nullptr ? &own : nullptr);
  std::vector<std::string> known = std::exchange(known_, {});
  require_map();
  visit(*this);
  finish();
  settings_ = outer;
  known_ = std::move(known);
}

Error placed(const Error& error, const Settings* settings) {
  if (settings == nullptr || settings->where.empty()) return error;
  const std::string place = settings->where.substr(0, settings->where.find(": "));
  const std::string file = place.substr(0, place.rfind(':'));
  return error.where().starts_with(file) ? error : error.at(settings->where);
}

Settings plain_settings(std::string text) {
  Settings scalar;
  scalar.kind = Settings::Kind::scalar;
  scalar.text = std::move(text);
  return scalar;
}
Settings text_settings(std::string text) {
  Settings scalar = plain_settings(std::move(text));
  scalar.quoted = true;
  return scalar;
}

void read_settings(const Settings* settings, std::string_view label, FunctionRef<void(Fields&)> visit) {
  SettingsReader reader(settings, label);
  visit(reader);
  reader.finish();
}

PluginSpec plugin_spec(const Settings& value, const std::string& key, const std::string& default_type) {
  const std::string where = value.where.empty() ? key : value.where;
  if (value.kind != Settings::Kind::map) {
    Settings defaults;  // empty, but it knows where the name was given
    defaults.kind = Settings::Kind::map;
    defaults.where = where;
    return {read_text(value), std::make_shared<const Settings>(std::move(defaults))};
  }
  const Settings* type = value.find("type");
  if (type == nullptr && default_type.empty()) throw Error(join_where(where, "type"), "missing key", "the plugin's name");
  Settings parameters = value;
  parameters.where = where;
  std::erase_if(parameters.entries, [](const auto& entry) { return entry.first == "type"; });
  return {type != nullptr ? read_text(*type) : default_type, std::make_shared<const Settings>(std::move(parameters))};
}

}  // namespace patchbay
