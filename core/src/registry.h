/// @file registry.h
/// Finds plugin libraries, reads their tables, refuses strangers, never closes a library. The only home of Boost.DLL.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "patchbay/plugin.h"

namespace patchbay {

/// A library that is no plugin of this build, and why: `patchbay list` shows them, using one is an error with this text.
struct RefusedPlugin {
  std::string path, kind, name;  ///< kind and name from the folder and file name
  std::string reason;
  bool other_build = false;      ///< the reason is another build of core: rebuilding mends all such at once
};

/// One parameter as described: what `describe`, the README tables and the conformance sweep read.
struct ParamInfo {
  std::string name, type;  ///< type: integer, real, boolean, text, choice, kernel, plugin
  std::string default_value, range, doc, unit;
  std::vector<std::string> choices;           ///< of a choice or kernel
  std::string plugin_kind;                    ///< of a plugin
  std::vector<KernelInfo> kernels;            ///< of a kernel
};

class PATCHBAY_API Registry {
 public:
  /// The one of this process: folders are $PATCHBAY_PLUGIN_PATH (colon-separated, first wins), then lib/patchbay/plugins beside
  /// the program, then beside this library.
  static Registry& instance();

  /// @throws Error listing the names there are, other names too (and a suggestion), or the reason of a refusal.
  const PluginTable& find(std::string_view kind, std::string_view name);
  /// A spec whose type is another name of a plugin ("q4_k_m") becomes one by the plugin's own (gguf_mix, mix: q4_k_m); any other stays.
  PluginSpec without_alias(std::string_view kind, const PluginSpec& spec);
  /// All names of a kind, sorted, without loading them.
  std::vector<std::string> names(std::string_view kind) const;
  std::vector<std::string> kinds() const;
  /// The files of all plugins, without loading them.
  std::vector<std::string> paths() const;
  /// Loads everything; what cannot be loaded is listed here.
  std::vector<RefusedPlugin> refused();
  std::vector<ParamInfo> describe(const PluginTable& table) const;
  /// Reads settings against the plugin's parameters without creating anything; returns every value in effect (type included,
  /// nested plugins expanded). @throws Error as read_settings.
  /// Kernels left open become what they come to on `backend` ("cuda" for GPUs and the emulator).
  Settings effective(std::string_view kind, const PluginSpec& spec, std::string_view backend = "cpu");
  /// "kind/name", "singular/name" or a bare name that is unique; other names too. @throws Error naming the candidates.
  const PluginTable& resolve(std::string_view reference);

 private:
  Registry();
  /// names(), and the other names that their plugins have; loads them.
  std::vector<std::string> names_and_aliases(std::string_view kind);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// True when `word` names the kind `folder`: the folder itself, its singular, or the technique's full name ("weight_format").
PATCHBAY_API bool names_kind(std::string_view word, const std::string& folder);

/// A plugin named in settings: a scalar (its type), or a map with `type` and its parameters. A map without `type` sets
/// parameters of the default type, where there is one (kv_store.format=int8).
PATCHBAY_API PluginSpec plugin_spec(const Settings& value, const std::string& key, const std::string& default_type = {});

}  // namespace patchbay
