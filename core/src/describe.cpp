// What a plugin's parameters are (describe) and what they come to under given settings (effective): two more visitors.
#include <algorithm>
#include <utility>

#include "patchbay/plugin.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

/// Writes down each parameter with its default.
class Describer : public Fields {
 public:
  std::vector<ParamInfo> params;

  void integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, Doc doc) override {
    add(name, "integer", std::to_string(value), doc).range = range_text(low, high);
  }
  void real(const char* name, double& value, double low, double high, Doc doc) override {
    add(name, "real", real_text(value), doc).range = range_text(low, high);
  }
  void boolean(const char* name, bool& value, Doc doc) override {
    add(name, "boolean", value ? "true" : "false", doc).range = "true, false";
  }
  void text(const char* name, std::string& value, Doc doc) override { add(name, "text", value, doc); }
  void choice(const char* name, std::string& value, std::initializer_list<std::string_view> allowed, Doc doc) override {
    ParamInfo& info = add(name, "choice", value, doc);
    info.choices.assign(allowed.begin(), allowed.end());
    list_choices(info);
  }
  void choice(const char* name, int& value, std::initializer_list<int> allowed, Doc doc) override {
    ParamInfo& info = add(name, "choice", std::to_string(value), doc);
    for (const int each : allowed) info.choices.push_back(std::to_string(each));
    list_choices(info);
  }
  void kernel(const char* name, KernelChoice& value, std::span<const KernelInfo> kernels, Doc doc) override {
    std::string chosen = value.prefill;
    if (value.decode != value.prefill) chosen = "{prefill: " + value.prefill + ", decode: " + value.decode + "}";
    ParamInfo& info = add(name, "kernel", chosen, doc);
    info.kernels.assign(kernels.begin(), kernels.end());
    for (const KernelInfo& kernel : kernels) info.choices.emplace_back(kernel.name);
    list_choices(info);
  }
  void plugin(const char* name, PluginSpec& value, std::string_view kind, Doc doc) override {
    ParamInfo& info = add(name, "plugin", value.type, doc);
    info.plugin_kind = kind;
    info.range = "one of " + info.plugin_kind;
  }
  void group(const char* name, FunctionRef<void(Fields&)> visit, Doc) override {
    prefix_ = std::string(name) + ".";
    visit(*this);
    prefix_.clear();
  }

 private:
  ParamInfo& add(const char* name, const char* type, std::string default_value, Doc doc) {
    ParamInfo info;
    info.name = prefix_ + name;
    info.type = type;
    info.default_value = std::move(default_value);
    info.doc = doc.text;
    info.unit = doc.unit;
    params.push_back(std::move(info));
    return params.back();
  }
  std::string prefix_;  ///< of the group in hand
  static void list_choices(ParamInfo& info) {
    for (const std::string& each : info.choices) info.range += (info.range.empty() ? "" : ", ") + each;
  }
};

/// Reads, and writes down every value that results.
class EffectiveReader : public SettingsReader {
 public:
  Settings result;

  EffectiveReader(const Settings* settings, const PluginTable& table, std::string_view backend)
      : SettingsReader(settings, table.name, backend), table_(table), backend_(backend) {
    result.kind = Settings::Kind::map;
    add("type", text_settings(table.name));
  }
  void integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, Doc doc) override {
    SettingsReader::integer(name, value, low, high, doc);
    add(name, plain_settings(std::to_string(value)));
  }
  void real(const char* name, double& value, double low, double high, Doc doc) override {
    SettingsReader::real(name, value, low, high, doc);
    add(name, plain_settings(real_text(value)));
  }
  void boolean(const char* name, bool& value, Doc doc) override {
    SettingsReader::boolean(name, value, doc);
    add(name, plain_settings(value ? "true" : "false"));
  }
  void text(const char* name, std::string& value, Doc doc) override {
    SettingsReader::text(name, value, doc);
    add(name, text_settings(value));
  }
  void choice(const char* name, std::string& value, std::initializer_list<std::string_view> allowed, Doc doc) override {
    SettingsReader::choice(name, value, allowed, doc);
    add(name, text_settings(value));
  }
  void choice(const char* name, int& value, std::initializer_list<int> allowed, Doc doc) override {
    SettingsReader::choice(name, value, allowed, doc);
    add(name, plain_settings(std::to_string(value)));
  }
  /// An open choice becomes the kernel it comes to on this machine. Where the backend has none, host code does the work.
  void kernel(const char* name, KernelChoice& value, std::span<const KernelInfo> kernels, Doc doc) override {
    SettingsReader::kernel(name, value, kernels, doc);
    const bool has = std::ranges::find(kernels, backend_, &KernelInfo::backend) != kernels.end();
    const std::string_view backend = has ? backend_ : kernels.front().backend;
    Settings phases;
    phases.kind = Settings::Kind::map;
    for (const auto& [phase, asked] : {std::pair{"prefill", value.prefill}, std::pair{"decode", value.decode}}) {
      phases.entries.emplace_back(phase, text_settings(std::string(pick_kernel(asked, kernels, table_.name, phase, backend).name)));
    }
    const bool same = phases.entries[0].second.text == phases.entries[1].second.text;
    add(name, same ? phases.entries[0].second : phases);
  }
  void plugin(const char* name, PluginSpec& value, std::string_view kind, Doc doc) override {
    SettingsReader::plugin(name, value, kind, doc);
    add(name, Registry::instance().effective(kind, value, backend_));
  }
  void group(const char* name, FunctionRef<void(Fields&)> visit, Doc doc) override {
    Settings outer = std::exchange(result, {});
    result.kind = Settings::Kind::map;
    SettingsReader::group(name, visit, doc);
    outer.entries.emplace_back(name, std::move(result));
    result = std::move(outer);
  }

 private:
  void add(const char* name, Settings value) { result.entries.emplace_back(name, std::move(value)); }
  const PluginTable& table_;
  std::string_view backend_;
};

}  // namespace

std::vector<ParamInfo> Registry::describe(const PluginTable& table) const {
  Describer describer;
  table.describe(describer);
  return std::move(describer.params);
}

Settings Registry::effective(std::string_view kind, const PluginSpec& spec, std::string_view backend) {
  const Settings* settings = spec.settings.get();
  try {
    const PluginTable& table = find(kind, spec.type);
    EffectiveReader reader(settings, table, backend);
    if (settings != nullptr) {  // a misspelt key first: what it leaves at its default may break a rule between parameters
      std::vector<std::string> names;
      for (const ParamInfo& param : describe(table)) names.push_back(param.name.substr(0, param.name.find('.')));
      refuse_unknown(*settings, table.name, names);
    }
    table.describe(reader);
    return std::move(reader.result);
  } catch (const Error& error) {
    throw placed(error, settings);
  }
}

}  // namespace patchbay
