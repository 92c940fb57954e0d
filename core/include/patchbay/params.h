/// @file params.h
/// Parameters of a plugin: one declaration (`visit`) that reads YAML, checks, states effective values, describes and documents.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "patchbay/error.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// A tree of settings as written (in YAML, or as key=value): scalars are text, each node knows where it stands.
struct Settings {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;      ///< of a scalar
  bool quoted = false;   ///< a quoted scalar is text, never a number or a boolean
  std::string where;     ///< place and dotted path: "quickstart.yaml:12: base.weights.format", "command line: kv_store.format"
  std::vector<Settings> items;                              ///< of a list
  std::vector<std::pair<std::string, Settings>> entries;    ///< of a map, in the order written

  // Defined below: an entry's std::pair asks for them, and only then are Settings complete (Clang insists).
  Settings();
  Settings(const Settings&);
  Settings(Settings&&) noexcept;
  Settings& operator=(const Settings&);
  Settings& operator=(Settings&&) noexcept;
  ~Settings();
  const Settings* find(std::string_view key) const;
};
inline Settings::Settings() = default;
inline Settings::Settings(const Settings&) = default;
inline Settings::Settings(Settings&&) noexcept = default;
inline Settings& Settings::operator=(const Settings&) = default;
inline Settings& Settings::operator=(Settings&&) noexcept = default;
inline Settings::~Settings() = default;
inline const Settings* Settings::find(std::string_view key) const {
  for (const auto& [name, value] : entries) if (name == key) return &value;
  return nullptr;
}

/// What a parameter means. `unit` may be empty.
struct Doc {
  std::string_view text;
  std::string_view unit = {};
};

/// One way to compute a technique. A technique lists its kernels worst to best.
struct KernelInfo {
  std::string_view name;
  std::string_view backend;  ///< "cpu", "cuda"
  std::string_view phases;   ///< "prefill", "decode" or "both"
  std::string_view what;     ///< one line: what changed against the one before, and why it should help
  bool (*available)() = nullptr;  ///< null: always. Asks the machine (cpuid), never guesses.
};

/// A kernel by phase. Empty: the best that the machine has.
struct KernelChoice {
  std::string prefill, decode;
};

/// A technique named inside another's parameters: a speculative decoder's drafter, a store's number format.
struct PluginSpec {
  std::string type;
  std::shared_ptr<const Settings> settings;  ///< its own parameters; null: all defaults
};

/// Visitor over a plugin's parameters. Each call names one parameter; the value passed in is its default.
class PATCHBAY_API Fields {
 public:
  virtual ~Fields();
  virtual void integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, Doc doc) = 0;
  virtual void real(const char* name, double& value, double low, double high, Doc doc) = 0;
  virtual void boolean(const char* name, bool& value, Doc doc) = 0;
  virtual void text(const char* name, std::string& value, Doc doc) = 0;
  virtual void choice(const char* name, std::string& value, std::initializer_list<std::string_view> allowed, Doc doc) = 0;
  virtual void choice(const char* name, int& value, std::initializer_list<int> allowed, Doc doc) = 0;
  /// YAML: one name, or {prefill: name, decode: name}.
  virtual void kernel(const char* name, KernelChoice& value, std::span<const KernelInfo> kernels, Doc doc) = 0;
  /// YAML: a name, or {type: name, ...its parameters}. value.type is the default ("" for required).
  virtual void plugin(const char* name, PluginSpec& value, std::string_view kind, Doc doc) = 0;
  /// Parameters in a map of their own: `visit` names them. Groups do not nest.
  virtual void group(const char* name, FunctionRef<void(Fields&)> visit, Doc doc) = 0;

  void integer(const char* name, int& value, std::int64_t low, std::int64_t high, Doc doc) {
    std::int64_t wide = value;
    integer(name, wide, low, high, doc);
    value = static_cast<int>(wide);
  }
};

/// The kernel to use for a phase on a backend ("cuda" stands for cuda and simt devices): the one asked for, or the last available.
/// @throws Error when the machine lacks the one asked for, or it is another backend's.
PATCHBAY_API const KernelInfo& pick_kernel(std::string_view asked, std::span<const KernelInfo> kernels, std::string_view technique,
                                           std::string_view phase, std::string_view backend = "cpu");

}  // namespace patchbay
