#include "path_checks.h"

#include <filesystem>

#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

std::string shown(const fs::path& path) { return escaped(path.string(), 300); }

}  // namespace

bool is_there(const std::string& path) {
  if (fs::exists(fs::status(path))) return true;
  if (!fs::is_symlink(fs::symlink_status(path))) return false;
  throw Error(shown(path), "is a link to a file that is not there: " + shown(fs::read_symlink(path)), {}, "fetch the file again, or mend the link");
}

std::string output_target(const std::string& path) {
  const auto there = fs::status(path);
  if (fs::is_directory(there)) throw Error(shown(path), "is a folder where a file is to be written", {}, "give a file's name");
  if (fs::exists(there) && !fs::is_regular_file(there))
    throw Error(shown(path), "is a pipe or a device, which a file cannot replace", "a regular file, or a new name");
  if (fs::is_symlink(fs::symlink_status(path))) {
    if (!fs::exists(there)) throw Error(shown(path), "is a link that leads nowhere", "a link to a file, or a new name", "remove the link, or give another name");
    return fs::canonical(path).string();
  }
  const auto folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::exists(folder))
    throw Error(shown(folder), "no such folder: " + shown(fs::path(path).filename()) + " is to be written there", {}, "make the folder first, or give another name");
  if (!folder.empty() && !fs::is_directory(folder))
    throw Error(shown(folder), "is a file and no folder: " + shown(fs::path(path).filename()) + " is to be written there", {}, "give another name");
  return path;
}

}  // namespace patchbay
