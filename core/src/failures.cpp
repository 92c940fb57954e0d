#include "failures.h"

#include <filesystem>
#include <new>

#include "utf8.h"

namespace patchbay {

std::string reason_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return escaped(files->path1().string()) + ": " + files->code().message();
  return error.what();
}

}  // namespace patchbay
