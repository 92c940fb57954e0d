// Plugin libraries: found in folders, opened at first use, never closed. The only home of Boost.DLL.
#include "registry.h"

#include <elf.h>

#include <algorithm>
#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "config.h"
#include "failures.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSymbol = "patchbay_plugin";
constexpr const char* kUnreadable = "cannot be read";
constexpr const char* kRebuild = "rebuild it with this program: cmake --build build/release";

struct Library {
  std::string path;
  const PluginTable* table = nullptr;
  std::string reason;  ///< of a refusal; "" while there is none
  bool other_build = false;
};

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// How a table is one of another build of core, or "". Fields after `abi` mean something only when it agrees.
std::string other_build(const PluginTable& table) {
  if (table.abi != kPluginAbi) {
    return "plugin interface " + std::to_string(table.abi) + ", this program has " + std::to_string(kPluginAbi) + "; " + kRebuild;
  }
  if (std::string_view(table.build_id) != PATCHBAY_BUILD_ID) {
    return "built as " + std::string(table.build_id) + ", this program as " PATCHBAY_BUILD_ID "; " + kRebuild;
  }
  return {};
}

/// How a table of this build stands in the wrong place, or "".
std::string misplaced(const PluginTable& table, const std::string& kind, const std::string& name) {
  if (table.kind != kind || table.name != name) {
    return "calls itself " + std::string(table.kind) + "/" + table.name + ", its file stands as " + kind + "/" + name +
           "; folder, file and name must agree";
  }
  return {};
}

/// Faults of the parameters' declaration, which would make a setting mean two things.
std::string bad_declaration(const PluginTable& table, const Registry& registry) {
  std::set<std::string> seen = {"type"};
  try {
    for (const ParamInfo& param : registry.describe(table)) {
      if (!seen.insert(param.name).second) {
        return "declares the parameter " + param.name + " twice" +
               (param.name == "type" ? " (type is the plugin's own name)" : "");
      }
    }
    if (!table.aliases.names.empty() && !seen.contains(table.aliases.parameter))
      return "has other names that set " + std::string(table.aliases.parameter) + ", which is no parameter of its own";
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return std::string("its defaults are refused by its own checks: ") + error.what();
  } catch (...) {
    return "describing its parameters throws something that is no exception";
  }
  return {};
}

/// Why the loader must not touch a file, or "". It maps what the ELF headers promise: a file cut while it was linked or copied ends
/// the process with SIGBUS. What is no 64-bit ELF file at all, the loader refuses by itself.
std::string unsafe_to_load(const std::string& path) {
  std::error_code failed;
  const bool regular = fs::is_regular_file(path, failed);
  const std::uint64_t bytes = regular ? fs::file_size(path, failed) : 0;
  if (failed) return "cannot be read: " + failed.message();
  if (!regular) return "is no regular file";
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!in.is_open() || in.bad()) return kUnreadable;
  if (!in || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    in.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (in.bad()) return kUnreadable;
    if (!in || segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset)
      return "is cut short: its headers speak of more than its " + std::to_string(bytes) + " bytes; " + kRebuild;
  }
  return {};
}

/// Opens a library for good. Whatever the loader has to say is the reason.
void open(Library& library, const std::string& kind, const std::string& name, const Registry& registry) {
  library.reason = unsafe_to_load(library.path);
  if (!library.reason.empty()) return;
  const PluginTable* table = nullptr;
  try {
    // Never closed, not at exit either: an exception or an object that outlives its library would crash.
    static auto& open_for_good = *new std::vector<std::unique_ptr<boost::dll::shared_library>>;
    auto handle = std::make_unique<boost::dll::shared_library>(library.path, boost::dll::load_mode::rtld_now);
    table = &handle->get<const PluginTable>(kSymbol);
    open_for_good.push_back(std::move(handle));
  } catch (const std::bad_alloc&) {
    throw;  // no fault of the library's, to be remembered
  } catch (const std::exception& error) {
    library.reason = error.what();
    return;
  }
  library.reason = other_build(*table);
  library.other_build = !library.reason.empty();
  if (library.reason.empty()) library.reason = misplaced(*table, kind, name);
  if (library.reason.empty()) library.reason = bad_declaration(*table, registry);
  if (library.reason.empty()) library.table = table;
}

std::vector<fs::path> plugin_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("PATCHBAY_PLUGIN_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(':'));
      if (!one.empty()) folders.emplace_back(one);
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
  }
  // Beside the program; then beside this library, which test programs and bindings reach from elsewhere.
  folders.push_back(fs::path(boost::dll::program_location().string()).parent_path() / "../lib/patchbay/plugins");
  folders.push_back(fs::path(boost::dll::this_line_location().string()).parent_path() / "patchbay/plugins");
  return folders;
}

}  // namespace

struct Registry::Impl {
  std::mutex mutex;
  std::map<std::string, std::map<std::string, Library>, std::less<>> kinds;
  std::vector<RefusedPlugin> missing_folders;
  std::string searched;

  void scan(const fs::path& folder, bool required) {
    searched += (searched.empty() ? "" : ", ") + folder.lexically_normal().string();
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) {
      if (required) missing_folders.push_back({folder.string(), "", "", "named in PATCHBAY_PLUGIN_PATH, but no such folder", false});
      return;
    }
    for (const auto& kind : fs::directory_iterator(folder, ignored)) {
      if (!kind.is_directory(ignored)) continue;
      for (const auto& file : fs::directory_iterator(kind.path(), ignored)) {
        if (file.path().extension() != ".so") continue;
        kinds[kind.path().filename()].try_emplace(file.path().stem(), Library{file.path().lexically_normal(), nullptr, {}, false});
      }
    }
  }
};

Registry::Registry() : impl_(std::make_shared<Impl>()) {
  std::vector<fs::path> folders = plugin_folders();
  for (std::size_t i = 0; i < folders.size(); ++i) impl_->scan(folders[i], i + 2 < folders.size());
}

Registry& Registry::instance() {
  static Registry* registry = new Registry;  // never destroyed: objects of plugins may outlive main
  return *registry;
}

const PluginTable& Registry::find(std::string_view kind, std::string_view name) {
  const std::string reference = printable(std::string(kind) + "/" + std::string(name));
  const auto of_kind = impl_->kinds.find(kind);  // the maps never change after construction, what they hold does
  if (of_kind == impl_->kinds.end()) {
    throw Error(reference, "no plugin of this kind", joined(kinds()), "looked in " + impl_->searched);
  }
  const auto found = of_kind->second.find(std::string(name));
  if (found == of_kind->second.end()) {
    const std::vector<std::string> known = names_and_aliases(kind);
    const std::string near = suggestion(name, known);
    throw Error(reference, "unknown plugin", joined(known), near.empty() ? "" : "did you mean " + near + "?");
  }
  const std::lock_guard lock(impl_->mutex);
  Library& library = found->second;
  if (library.table == nullptr && library.reason.empty()) open(library, of_kind->first, found->first, *this);
  if (library.table == nullptr) throw Error(reference, "refused: " + library.reason, "", "file " + library.path);
  return *library.table;
}

PluginSpec Registry::without_alias(std::string_view kind, const PluginSpec& spec) {
  const std::vector<std::string> known = names(kind);
  if (std::ranges::find(known, spec.type) != known.end()) return spec;
  for (const std::string& name : known) {
    PluginAliases aliases;
    try {
      aliases = find(kind, name).aliases;
    } catch (const Error&) {
      continue;  // a refused library has no say here; `patchbay list` says why
    }
    if (std::ranges::find(aliases.names, spec.type) == aliases.names.end()) continue;
    Settings settings = spec.settings ? *spec.settings : Settings();
    if (const Settings* given = settings.find(aliases.parameter))
      throw Error(given->where, "is stated twice: " + spec.type + " is short for " + name + " with this parameter", "",
                  "leave it out, or write type: " + name);
    settings.kind = Settings::Kind::map;
    settings.entries.emplace_back(aliases.parameter, text_settings(spec.type));
    settings.entries.back().second.where = settings.where;
    return {name, std::make_shared<const Settings>(std::move(settings))};
  }
  return spec;
}

std::vector<std::string> Registry::names(std::string_view kind) const {
  std::vector<std::string> result;  // the maps never change after construction
  if (const auto of_kind = impl_->kinds.find(kind); of_kind != impl_->kinds.end()) {
    for (const auto& [name, library] : of_kind->second) result.push_back(name);
  }
  return result;
}

std::vector<std::string> Registry::names_and_aliases(std::string_view kind) {
  std::vector<std::string> all = names(kind);
  for (const std::string& name : names(kind)) {
    try {
      const PluginAliases aliases = find(kind, name).aliases;
      all.insert(all.end(), aliases.names.begin(), aliases.names.end());
    } catch (const Error&) {
      // a refused library has no other names
    }
  }
  std::ranges::sort(all);
  return all;
}

std::vector<std::string> Registry::kinds() const {
  std::vector<std::string> result;
  for (const auto& [kind, libraries] : impl_->kinds) result.push_back(kind);
  return result;
}

std::vector<std::string> Registry::paths() const {
  std::vector<std::string> all;
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [kind, libraries] : impl_->kinds)
    for (const auto& [name, library] : libraries) all.push_back(library.path);
  return all;
}

std::vector<RefusedPlugin> Registry::refused() {
  std::vector<RefusedPlugin> result = impl_->missing_folders;
  const std::lock_guard lock(impl_->mutex);
  for (auto& [kind, libraries] : impl_->kinds) {
    for (auto& [name, library] : libraries) {
      if (library.table == nullptr && library.reason.empty()) open(library, kind, name, *this);
      if (library.table == nullptr) result.push_back({library.path, kind, name, library.reason, library.other_build});
    }
  }
  return result;
}

const PluginTable& Registry::resolve(std::string_view reference) {
  const std::size_t slash = reference.find('/');
  const std::string_view name = slash == std::string_view::npos ? reference : reference.substr(slash + 1);
  std::vector<std::string> matches;
  for (const auto& [kind, libraries] : impl_->kinds) {
    if (slash != std::string_view::npos && names_kind(reference.substr(0, slash), kind))
      return find(kind, without_alias(kind, {std::string(name), nullptr}).type);
    if (libraries.contains(std::string(name))) matches.push_back(kind + "/" + std::string(name));
  }
  if (slash != std::string_view::npos) throw Error(printable(reference), "unknown kind of plugin", joined(kinds()));
  if (matches.size() == 1) return find(std::string_view(matches[0]).substr(0, matches[0].find('/')), name);
  if (matches.size() > 1) throw Error(printable(reference), "several plugins have this name", joined(matches));
  for (const std::string& kind : kinds()) {
    const std::string own = without_alias(kind, {std::string(name), nullptr}).type;
    if (own != name) return find(kind, own);
  }
  std::vector<std::string> everything;
  for (const std::string& kind : kinds())
    for (const std::string& each : names_and_aliases(kind)) everything.push_back(each);
  const std::string near = suggestion(name, everything);
  throw Error(printable(reference), "unknown plugin", "", (near.empty() ? "" : "did you mean " + near + "? ") + "patchbay list shows all");
}

bool names_kind(std::string_view word, const std::string& folder) {
  return word == folder || std::string(word) + "s" == folder || (folder == "formats" && word == "weight_format") ||
         (folder == "processors" && word == "logits_processor");
}

std::shared_ptr<void> make_plugin(std::string_view kind, const PluginSpec& spec) {
  const Settings* settings = spec.settings.get();
  const std::string reference = std::string(kind) + "/" + spec.type;
  try {
    const PluginTable& table = Registry::instance().find(kind, spec.type);
    return {table.create(settings), table.destroy};
  } catch (const Error& error) {
    throw placed(error, settings);
  } catch (const std::exception& error) {
    throw placed(Error(reference, "could not be made: " + reason_of(error)), settings);
  } catch (...) {
    throw placed(Error(reference, "could not be made: it threw something that is no exception"), settings);
  }
}

}  // namespace patchbay
