#include "failures.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "utf8.h"

namespace patchbay {
namespace {

/// What can be done about it, where that is not plain from the system's word for it.
const char* remedy_for(const std::error_code& code) {
  if (code == std::errc::filename_too_long) return "a name holds up to 255 bytes, a path 4095";
  if (code == std::errc::too_many_symbolic_link_levels) return "the links lead in a circle: ls -l shows where to";
  if (code == std::errc::not_a_directory) return "a file stands where a folder is needed: give another path";
  if (code == std::errc::permission_denied) return "check its permissions and its folder's";
  if (code == std::errc::no_space_on_device) return "make room";
  return "";
}

}  // namespace

std::string reason_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return Error(escaped(files->path1().string(), 300), "cannot be used: " + files->code().message(), "", remedy_for(files->code())).what();
  return error.what();
}

}  // namespace patchbay
