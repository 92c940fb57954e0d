// patchbay list: the plugins by kind, those refused, and all kernels.
//
// --json: {"plugins": [{"kind", "name", "summary", "paper"}], "refused": [{"path", "kind", "name", "reason"}]};
// Refused plugins of another build of core are one line, unless --verbose (or --json) asks for each.
// list kernels [OF]: a table of kernels, OF being a plugin, a kind or a backend.
// list kernels --json: {"kernels": [{"kind", "technique", "parameter", "kernel", "backend", "phases", "available", "what"}]}.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "describe_json.h"

namespace patchbay::app {
namespace {

/// Calls body(kind, table) for every plugin that can be used, by kind and name.
template <class Body>
void for_each_plugin(const std::vector<std::string>& kinds, const std::vector<RefusedPlugin>& refused, Body body) {
  Registry& registry = Registry::instance();
  for (const std::string& kind : kinds) {
    for (const std::string& name : registry.names(kind)) {
      const auto is_this = [&](const RefusedPlugin& one) { return one.kind == kind && one.name == name; };
      if (std::none_of(refused.begin(), refused.end(), is_this)) body(kind, registry.find(kind, name));
    }
  }
}

/// ":rms_norm" of kernels.rms_norm: what a backend's kernels compute.
std::string operation_of(const ParamInfo& param) {
  const std::size_t dot = param.name.find('.');
  return dot == std::string::npos ? "" : ":" + param.name.substr(dot + 1);
}

/// All kernels, or those of one plugin, kind or backend.
int list_kernels(const std::string& of, bool as_json) {
  constexpr const char* kRow = "{:<28} {:<12} {:<5} {:<8} {:<4} {}\n";
  Registry& registry = Registry::instance();
  nlohmann::json result = {{"kernels", nlohmann::json::array()}};
  std::set<std::string> known;
  for_each_plugin(registry.kinds(), registry.refused(), [&](const std::string& kind, const PluginTable& table) {
    for (const ParamInfo& param : registry.describe(table)) {
      std::vector<KernelInfo> kernels = param.kernels;
      std::ranges::stable_partition(kernels, [](const KernelInfo& kernel) { return kernel.what.find("the yardstick") == std::string_view::npos; });  // no step of the ladder
      for (const KernelInfo& kernel : kernels) {
        const std::string plugin = fmt::format("{}/{}", kind, table.name), names[] = {kind, table.name, plugin, std::string(kernel.backend)};
        known.insert(std::begin(names), std::end(names));
        if (!of.empty() && !names_kind(of, kind) && std::ranges::find(names, of) == std::end(names)) continue;
        if (!as_json && result["kernels"].empty()) fmt::print(fmt::runtime(kRow), "plugin", "kernel", "for", "phases", "here", "what");
        nlohmann::json one = kernel_json(kernel);
        one.update({{"kind", kind}, {"technique", table.name}, {"parameter", param.name}});
        result["kernels"].push_back(one);
        if (as_json) continue;
        fmt::print(fmt::runtime(kRow), plugin + operation_of(param), kernel.name, kernel.backend, kernel.phases, is_available(kernel) ? "yes" : "no",
                   kernel.what);
      }
    }
  });
  if (result["kernels"].empty() && !of.empty()) {
    const std::vector<std::string> names(known.begin(), known.end());
    const std::string near = suggestion(of, names);
    throw Error("list kernels " + printable(of), "no kernel is of that kind, plugin or backend", fmt::format("{}", fmt::join(names, ", ")),
                near.empty() ? "" : "did you mean " + near + "?");
  }
  if (as_json) fmt::print("{}\n", json_text(result));
  return 0;
}

/// The kinds asked for: all, or the one that `what` names in the plural or singular.
std::vector<std::string> kinds_of(const std::string& what) {
  std::vector<std::string> kinds = Registry::instance().kinds();
  if (what.empty()) return kinds;
  for (const std::string& kind : kinds)
    if (names_kind(what, kind)) return {kind};
  kinds.push_back("kernels");
  std::string all;
  for (const std::string& kind : kinds) all += (all.empty() ? "" : ", ") + kind;
  const std::string near = suggestion(what, kinds);
  throw Error("list " + what, "unknown kind of plugin", all, near.empty() ? "" : "did you mean " + near + "?");
}

void print_refused(const std::vector<RefusedPlugin>& refused, bool verbose) {
  const auto strangers = std::ranges::count_if(refused, &RefusedPlugin::other_build);
  const bool summary = !verbose && strangers > 1;
  const char* gap = "\n";
  for (const RefusedPlugin& one : refused) {
    if (summary && one.other_build) continue;
    fmt::print("{}refused: {}\n  {}\n", gap, one.path, one.reason);
    gap = "";
  }
  if (summary)
    fmt::print("{}refused: {} plugins were built for another core than this program's; rebuild all: cmake --build build/release\n"
               "  (patchbay list --verbose names each, patchbay --version this core)\n", gap, strangers);
}

}  // namespace

int list(const ListOptions& options) {
  if (options.what == "kernels") return list_kernels(options.of, options.json);
  if (!options.of.empty()) throw Error("list " + printable(options.of), "one word too many", "a kind of plugin; kernels, and of which plugin, kind or backend");
  const std::vector<std::string> kinds = kinds_of(options.what);
  std::vector<RefusedPlugin> refused = Registry::instance().refused();
  const auto elsewhere = [&](const RefusedPlugin& one) {
    const bool whole_folder = one.kind.empty();  // it may have held plugins of this kind
    return !options.what.empty() && !whole_folder && std::find(kinds.begin(), kinds.end(), one.kind) == kinds.end();
  };
  std::erase_if(refused, elsewhere);
  nlohmann::json result = {{"plugins", nlohmann::json::array()}, {"refused", nlohmann::json::array()}};
  std::string heading;
  for_each_plugin(kinds, refused, [&](const std::string& kind, const PluginTable& table) {
    result["plugins"].push_back({{"kind", kind}, {"name", table.name}, {"summary", table.summary}, {"paper", table.paper}});
    if (options.json) return;
    if (kind != heading) fmt::print("{}{}\n", heading.empty() ? "" : "\n", kind);
    heading = kind;
    fmt::print("  {:<16} {}\n", table.name, table.summary);
  });
  for (const RefusedPlugin& one : refused) {
    result["refused"].push_back({{"path", one.path}, {"kind", one.kind}, {"name", one.name}, {"reason", one.reason}});
  }
  if (options.json) fmt::print("{}\n", json_text(result));
  else print_refused(refused, options.verbose);
  return 0;
}

}  // namespace patchbay::app
