/// @file plugin.h
/// How a technique becomes a plugin: one exported table, read through Boost.DLL. A plugin author includes the header of the
/// interface, this one, and ends the .cpp with PATCHBAY_PLUGIN(...).
#pragma once
#include <memory>
#include <span>

#include "patchbay/build_id.h"  // generated: compiler, standard, flags that matter, hash of core/include
#include "patchbay/params.h"
#include "patchbay/tensor.h"

namespace patchbay {

inline constexpr std::uint32_t kPluginAbi = 1;

/// Other names under which a plugin is found, none of them a plugin's own: `type: NAME` stands for this plugin with NAME as the value of
/// `parameter`. A class states them as `static constexpr PluginAliases kAliases`.
struct PluginAliases {
  const char* parameter = nullptr;
  std::span<const std::string_view> names;
};

/// The one exported symbol, `patchbay_plugin`. `abi` stands first for ever, so that any reader can refuse any plugin by name.
struct PluginTable {
  std::uint32_t abi;
  const char* build_id;
  const char* kind;     ///< the folder under plugins/: "formats", "decoders", ...
  const char* name;
  const char* summary;  ///< one line
  const char* paper;    ///< source of the algorithm or format; may be ""
  void (*describe)(Fields&);               ///< visits the defaults, then checks what the visitor left in them
  void* (*create)(const Settings*);        ///< an object of the kind's interface; settings null: defaults. Throws Error.
  void (*destroy)(void*);
  PluginAliases aliases = {};
};

/// Reads settings into params, refusing unknown keys (with a suggestion), wrong types and values out of range.
/// `label` stands for the plugin in messages. Implemented by core.
PATCHBAY_API void read_settings(const Settings* settings, std::string_view label, FunctionRef<void(Fields&)> visit);

/// Makes an object of a kind by name. Library and object stay valid for the life of the result.
PATCHBAY_API std::shared_ptr<void> make_plugin(std::string_view kind, const PluginSpec& spec);

/// Folder name of an interface's kind.
template <class Interface> struct KindOf;
#define PATCHBAY_KIND(Interface, folder)  \
  class Interface;                        \
  template <> struct KindOf<Interface> { static constexpr const char* value = folder; };
PATCHBAY_KIND(WeightFormat, "formats")
PATCHBAY_KIND(Quantizer, "quantizers")
PATCHBAY_KIND(Transform, "transforms")
PATCHBAY_KIND(Attention, "attention")
PATCHBAY_KIND(KvFormat, "kv_formats")
PATCHBAY_KIND(KvStore, "kv_stores")
PATCHBAY_KIND(KvRetention, "kv_retention")
PATCHBAY_KIND(KvPrefix, "kv_prefix")
PATCHBAY_KIND(Decoder, "decoders")
PATCHBAY_KIND(Drafter, "drafters")
PATCHBAY_KIND(LogitsProcessor, "processors")
PATCHBAY_KIND(Backend, "backends")
#undef PATCHBAY_KIND

/// `make<Drafter>(params.drafter)`
template <class Interface>
std::shared_ptr<Interface> make(const PluginSpec& spec) {
  return std::static_pointer_cast<Interface>(make_plugin(KindOf<Interface>::value, spec));
}

namespace detail {
/// Rules that tie several parameters together.
template <class Params>
void check_params(const Params& params) {
  if constexpr (requires { params.check(); }) params.check();
}
template <class Class>
constexpr PluginAliases aliases_of() {
  if constexpr (requires { Class::kAliases; }) return Class::kAliases;
  return {};
}
}  // namespace detail

/// Class must have a nested `Params` (default values, `void visit(Fields&)`, optionally `void check() const`) and a constructor
/// from it.
#define PATCHBAY_PLUGIN(Interface, Class, plugin_name, plugin_summary, plugin_paper)                                      \
  extern "C" PATCHBAY_API const ::patchbay::PluginTable patchbay_plugin;                                                \
  const ::patchbay::PluginTable patchbay_plugin = {                                                                     \
      ::patchbay::kPluginAbi, PATCHBAY_BUILD_ID, ::patchbay::KindOf<Interface>::value, plugin_name, plugin_summary,       \
      plugin_paper,                                                                                                     \
      [](::patchbay::Fields& fields) {                                                                                  \
        Class::Params params;                                                                                           \
        params.visit(fields);                                                                                           \
        ::patchbay::detail::check_params(params);                                                                       \
      },                                                                                                                \
      [](const ::patchbay::Settings* settings) -> void* {                                                               \
        Class::Params params;                                                                                           \
        ::patchbay::read_settings(settings, plugin_name, [&](::patchbay::Fields& fields) { params.visit(fields); });    \
        ::patchbay::detail::check_params(params);                                                                       \
        return static_cast<Interface*>(new Class(params));                                                              \
      },                                                                                                                \
      [](void* object) { delete static_cast<Interface*>(object); },                                                     \
      ::patchbay::detail::aliases_of<Class>()};

}  // namespace patchbay
