#include "output_file.h"

#include <filesystem>

#include "common.h"
#include "files.h"

namespace patchbay::app {

void write_output_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void refuse_other_file(const std::string& path, std::string_view beginning, const std::string& what) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // new, or refused by whoever writes
  if (const std::string there = read_whole_file(path); !there.empty() && !there.starts_with(beginning))
    throw Error(printable(path), "is there already, and is not " + what, "a new name, or " + what, "give another name: what is in the file would be lost");
}

}  // namespace patchbay::app
