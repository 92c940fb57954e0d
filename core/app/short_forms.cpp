#include "short_forms.h"

#include <algorithm>

#include "config.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay::app {
namespace {

constexpr const char* kTemperature = "--temperature";

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

bool is_zero(const std::string& option, const std::string& text) {
  Settings value = plain_settings(text);
  value.where = option;
  const double number = read_real(value, -1e30, 1e30);
  if (number < 0) throw Error(option, printable(text) + " is out of range", "0, which is greedy decoding, or more");
  return number == 0;
}

/// True when the decoder is one that accepts drafts and was not told how.
bool must_be_told_to_sample(const PluginSpec& decoder) {
  if (decoder.settings != nullptr && decoder.settings->find("accept") != nullptr) return false;
  Registry& registry = Registry::instance();
  const std::vector<ParamInfo> params = registry.describe(registry.find("decoders", decoder.type));
  return std::any_of(params.begin(), params.end(), [](const ParamInfo& param) {
    return param.name == "accept" && std::find(param.choices.begin(), param.choices.end(), "sample") != param.choices.end();
  });
}

/// A value out of range is refused here, under the name that the user gave.
void check_value(const ShortForm& form, const std::string& text) {
  Settings value = plain_settings(text);
  value.where = form.option;
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  settings->where = form.option;
  settings->entries.emplace_back(form.parameter, value);
  Registry::instance().effective("processors", {form.plugin, settings});
}

}  // namespace

std::vector<ShortForm> short_forms() {
  Registry& registry = Registry::instance();
  std::vector<ShortForm> forms;
  for (const std::string& name : registry.names("processors")) {
    try {
      const std::vector<ParamInfo> params = registry.describe(registry.find("processors", name));
      if (params.empty()) continue;
      const bool is_temperature = dashed(name) == kTemperature;
      const std::string help = is_temperature ? "Logits are divided by it; 1 changes nothing; 0: greedy decoding (0, or " : params[0].doc + " (";
      forms.push_back({dashed(name), name, params[0].name, help + params[0].range + ")"});
    } catch (const Error&) {
      // A refused library has no short form; `patchbay list` says why.
    }
  }
  return forms;
}

std::vector<std::string> with_short_forms(const std::map<std::string, std::string>& given,
                                          const std::vector<std::string>& assignments) {
  std::vector<std::string> result = assignments;
  if (given.empty()) return result;
  Settings user;
  user.kind = Settings::Kind::map;
  for (const std::string& assignment : assignments) apply_assignment(user, assignment);
  if (user.find("processors") != nullptr)
    throw Error(given.begin()->first, "given beside processors=", "", "give one of the two");
  const Settings* decoder = user.find("decoder");
  const auto temperature = given.find(kTemperature);
  if (temperature != given.end() && is_zero(temperature->first, temperature->second)) {
    for (const auto& [option, value] : given) {
      if (option != kTemperature)
        throw Error(option, "has no effect at temperature 0, which is greedy decoding", "", "leave it out");
    }
    if (decoder == nullptr) result.push_back("decoder=greedy");
    return result;
  }
  std::string processors;
  for (const ShortForm& form : short_forms()) {
    const auto value = given.find(form.option);
    if (value == given.end()) continue;
    if (value->second.find_first_of(",[]{}\"'#:") != std::string::npos)
      throw Error(form.option, printable(value->second) + " is no value");
    check_value(form, value->second);
    processors +=
        (processors.empty() ? "" : ", ") + ("{type: " + form.plugin + ", " + form.parameter + ": " + value->second + "}");
  }
  result.push_back("processors=[" + processors + "]");
  if (decoder == nullptr)
    result.push_back("decoder=sampling");
  else if (must_be_told_to_sample(plugin_spec(*decoder, "decoder")))
    result.push_back("decoder.accept=sample");
  return result;
}

}  // namespace patchbay::app
