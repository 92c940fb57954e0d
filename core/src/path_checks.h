/// @file path_checks.h
/// What stands under a name before it is read or written.
#pragma once
#include <string>

#include "patchbay/error.h"

namespace patchbay {

/// Whether a file or folder has this name. @throws Error for a link that leads nowhere: what it stood for is lost, not absent.
PATCHBAY_API bool is_there(const std::string& path);
/// Where a file of this name is to be written: there, or where a link there leads to. @throws Error for what no file may replace (a folder, a
/// pipe, a device, a link that leads nowhere), and where the folder is missing.
PATCHBAY_API std::string output_target(const std::string& path);

}  // namespace patchbay
