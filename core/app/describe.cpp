// patchbay describe: one plugin, its parameters and its kernels.
//
// --json: {"kind", "name", "summary", "paper", "parameters": [{"name", "type", "default", "range", "unit", "doc", "choices",
// "kind"}], "kernels": [{"parameter", "kernel", "backend", "phases", "available", "what"}]}; type is integer, real, boolean, text, choice,
// kernel or plugin; default is null where a value must be given, and for a kernel, where the best that the machine has is taken.
// --markdown: the table that scripts/update_readmes.py writes into the plugin's README.
#include <fmt/format.h>

#include "commands.h"
#include "describe_json.h"

namespace patchbay::app {
namespace {

nlohmann::json default_json(const ParamInfo& param) {
  if (param.default_value.empty() && param.type != "text") return nullptr;
  if (param.type == "integer" || param.type == "real" || param.type == "boolean")
    return nlohmann::json::parse(param.default_value);
  return param.default_value;
}

nlohmann::json as_json(const PluginTable& table, const std::vector<ParamInfo>& params) {
  nlohmann::json result = {{"kind", table.kind},
                           {"name", table.name},
                           {"summary", table.summary},
                           {"paper", table.paper},
                           {"parameters", nlohmann::json::array()},
                           {"kernels", nlohmann::json::array()}};
  for (const ParamInfo& param : params) {
    result["parameters"].push_back({{"name", param.name},
                                    {"type", param.type},
                                    {"default", default_json(param)},
                                    {"range", param.range},
                                    {"unit", param.unit},
                                    {"doc", param.doc},
                                    {"choices", param.choices},
                                    {"kind", param.plugin_kind}});
    for (const KernelInfo& kernel : param.kernels) {
      result["kernels"].push_back(kernel_json(kernel));
      result["kernels"].back()["parameter"] = param.name;
    }
  }
  return result;
}

/// The default as a reader should see it.
std::string default_text(const ParamInfo& param) {
  if (!param.default_value.empty()) return param.default_value;
  if (param.type == "kernel") return "the backend's last that this machine has";
  return param.type == "text" ? "\"\"" : "required";
}

/// A table's cells may not hold bars or line breaks.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void print_markdown(const std::vector<ParamInfo>& params) {
  if (params.empty()) {
    fmt::print("No parameters.\n");
    return;
  }
  fmt::print("| parameter | default | allowed | unit | meaning |\n| --- | --- | --- | --- | --- |\n");
  for (const ParamInfo& param : params) {
    fmt::print("| `{}` | {} | {} | {} | {} |\n", param.name, cell(default_text(param)), cell(param.range), param.unit,
               cell(param.doc));
  }
  // The kernels of a group's parameters make one table.
  std::string heading;
  for (const ParamInfo& param : params) {
    if (param.kernels.empty()) continue;
    const std::size_t dot = param.name.find('.');
    const bool of_group = dot != std::string::npos;
    const std::string title = param.name.substr(0, dot), operation = of_group ? "`" + param.name.substr(dot + 1) + "` | " : "";
    if (title != heading) fmt::print("\n| {} | {}backend | phases | what changed |\n| --- |{} --- | --- | --- |\n", title, of_group ? "kernel | " : "", of_group ? " --- |" : "");
    heading = title;
    for (const KernelInfo& kernel : param.kernels) {
      fmt::print("| {}`{}` | {} | {} | {} |\n", operation, kernel.name, kernel.backend, kernel.phases, cell(kernel.what));
    }
  }
}

void print_text(const PluginTable& table, const std::vector<ParamInfo>& params) {
  fmt::print("{}/{}: {}\n", table.kind, table.name, table.summary);
  if (*table.paper != '\0') fmt::print("paper: {}\n", table.paper);
  if (const auto names = table.aliases.names; !names.empty())
    fmt::print("other names: {} (each sets {})\n", fmt::join(names, ", "), table.aliases.parameter);
  if (!params.empty()) fmt::print("\nparameters\n");
  for (const ParamInfo& param : params) {
    fmt::print("  {} = {}{}{}\n      {}\n", param.name, default_text(param), param.unit.empty() ? "" : " " + param.unit,
               param.range.empty() ? "" : " (" + param.range + ")", param.doc);
  }
  for (const ParamInfo& param : params) {
    if (param.kernels.empty()) continue;
    fmt::print("\n{}, worst to best\n", param.name);
    for (const KernelInfo& kernel : param.kernels) {
      fmt::print("  {:<12} {:<5} {:<8} {}{}\n", kernel.name, kernel.backend, kernel.phases, kernel.what,
                 is_available(kernel) ? "" : " (not on this machine)");
    }
  }
}

}  // namespace

int describe(const DescribeOptions& options) {
  Registry& registry = Registry::instance();
  const PluginTable& table = registry.resolve(options.name);
  const std::vector<ParamInfo> params = registry.describe(table);
  if (options.json)
    fmt::print("{}\n", json_text(as_json(table, params)));
  else if (options.markdown)
    print_markdown(params);
  else
    print_text(table, params);
  return 0;
}

}  // namespace patchbay::app
