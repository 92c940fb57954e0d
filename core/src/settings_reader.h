/// @file settings_reader.h
/// Settings read as typed values, each refusal an Error that begins with where the value stands.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/params.h"

namespace patchbay {

/// What YAML's core schema makes of a scalar.
enum class ScalarType { null, boolean, integer, real, text };
PATCHBAY_API ScalarType scalar_type(const Settings& scalar);

/// Where the entry `key` of `map` stands or, when it is absent, would stand. `label` begins it when the map has no place.
PATCHBAY_API std::string where_of(const Settings* map, std::string_view label, std::string_view key);
/// Joins a place ("a.yaml:3: weights", "command line") and a key into "a.yaml:3: weights.key", "command line: key".
PATCHBAY_API std::string join_where(std::string_view where, std::string_view key);

/// "1 to 8", "at least 0", "any": as messages and descriptions state a range.
PATCHBAY_API std::string range_text(std::int64_t low, std::int64_t high);
PATCHBAY_API std::string range_text(double low, double high);
/// The shortest text that reads back as the same double, and as a real number ("1.0", "0.1", "1e-05").
PATCHBAY_API std::string real_text(double value);
/// Text from outside as it may be printed: control bytes escaped, long text cut.
PATCHBAY_API std::string printable(std::string_view text);

/// Typed readings of one value. @throws Error with the value's place. `allowed` replaces the range in messages.
PATCHBAY_API std::int64_t read_integer(const Settings& value, std::int64_t low, std::int64_t high, std::string allowed = {});
PATCHBAY_API double read_real(const Settings& value, double low, double high);
PATCHBAY_API bool read_boolean(const Settings& value);
PATCHBAY_API std::string read_text(const Settings& value);
PATCHBAY_API std::string read_choice(const Settings& value, std::span<const std::string> allowed);
/// Whether a kernel computes a phase; "": any.
inline bool serves(const KernelInfo& kernel, std::string_view phase) {
  return phase.empty() || kernel.phases == "both" || kernel.phases == phase;
}
inline bool is_available(const KernelInfo& kernel) { return kernel.available == nullptr || kernel.available(); }
/// backend: the one that is to run, if that is known; messages then name its kernels alone.
PATCHBAY_API KernelChoice read_kernel(const Settings& value, std::span<const KernelInfo> kernels, std::string_view backend = {});
/// Refuses entries of `map` whose key is not among `known`, with the nearest as a suggestion.
PATCHBAY_API void refuse_unknown(const Settings& map, std::string_view label, std::span<const std::string> known);

/// An error of a plugin's own (rules between parameters, its constructor), placed where its settings stand.
PATCHBAY_API Error placed(const Error& error, const Settings* settings);
/// A scalar made here: `text` in quotes (never read as a number), or a plain one.
PATCHBAY_API Settings text_settings(std::string text);
PATCHBAY_API Settings plain_settings(std::string text);

/// The Fields that read: null settings leave every default.
class PATCHBAY_API SettingsReader : public Fields {
 public:
  /// @throws Error when settings are there and no map.
  SettingsReader(const Settings* settings, std::string_view label, std::string_view backend = {});
  /// To be called after the last field: refuses unknown keys.
  void finish() const;
  /// The entry `name`, noted as known; null when it is absent.
  /// Valid until the next call.
  const Settings* take(const char* name);

  void integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, Doc doc) override;
  void real(const char* name, double& value, double low, double high, Doc doc) override;
  void boolean(const char* name, bool& value, Doc doc) override;
  void text(const char* name, std::string& value, Doc doc) override;
  void choice(const char* name, std::string& value, std::initializer_list<std::string_view> allowed, Doc doc) override;
  void choice(const char* name, int& value, std::initializer_list<int> allowed, Doc doc) override;
  void kernel(const char* name, KernelChoice& value, std::span<const KernelInfo> kernels, Doc doc) override;
  void plugin(const char* name, PluginSpec& value, std::string_view kind, Doc doc) override;
  void group(const char* name, FunctionRef<void(Fields&)> visit, Doc doc) override;
  using Fields::integer;

 private:
  void require_map() const;
  const Settings* settings_;  ///< of the group in hand
  std::string label_;
  std::string_view backend_;
  std::vector<std::string> known_;
  Settings placed_;  ///< the value in hand, when it has no place of its own
};

}  // namespace patchbay
