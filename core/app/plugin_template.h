/// @file plugin_template.h
/// How `patchbay new` makes one plugin out of another: its files as text, with the names replaced.
#pragma once
#include <map>
#include <string>

namespace patchbay::app {

/// The files of a plugin's folder: name to content.
using Folder = std::map<std::string, std::string>;

/// What the new plugin is called, and what it is made from.
struct Naming {
  std::string kind;  ///< folder under plugins/: "quantizers"
  std::string from, to;
};

/// The new plugin's folder. Code keeps its algorithm and gets the new name as file, class and plugin; README, experiment and test
/// are skeletons that hold what the code refers to. @throws Error when `from` is no plugin's folder.
Folder renamed_plugin(const Folder& from, const Naming& naming, bool in_tree);

/// "min_p" to "MinP".
std::string camel_case(const std::string& name);

}  // namespace patchbay::app
