#include "resources.h"

#include <cstdlib>

namespace patchbay {

std::vector<std::filesystem::path> resource_places(const std::string& relative) {
  std::vector<std::filesystem::path> places;
  std::error_code ignored;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
    places.push_back(folder / relative);
    places.push_back(folder / "share/patchbay" / relative);
  }
  return places;
}

std::filesystem::path user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return std::filesystem::path(cache) / "patchbay";
  const char* home = std::getenv("HOME");
  return home && *home ? std::filesystem::path(home) / ".cache/patchbay" : std::filesystem::path();
}

}  // namespace patchbay
