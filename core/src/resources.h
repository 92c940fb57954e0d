/// @file resources.h
/// Files that come with the program (descriptions of models, scripts), and where it keeps what it may find out again.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

/// Where `relative` may lie above the program, in a source tree or an installed one; nothing says that it is there.
PATCHBAY_API std::vector<std::filesystem::path> resource_places(const std::string& relative);

/// The user's cache folder of this program (XDG base directories); empty when the user has none.
PATCHBAY_API std::filesystem::path user_cache_folder();

}  // namespace patchbay
