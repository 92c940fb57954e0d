/// @file output_file.h
/// Files that a command writes where its user says: whole or not at all, and never in the place of something else.
#pragma once
#include <string>
#include <string_view>

namespace patchbay::app {

/// @throws Error where it cannot be written; the old file is then untouched.
void write_output_file(const std::string& path, std::string_view bytes);
/// A file that begins otherwise may not be replaced by `what` ("a CSV file of patchbay report"): it is somebody's. @throws Error.
void refuse_other_file(const std::string& path, std::string_view beginning, const std::string& what);

}  // namespace patchbay::app
