/// @file usage_errors.h
/// What is said of a command line that is wrong.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace patchbay::app {

inline constexpr int kUsage = 2;  ///< the exit code

/// What is wrong with the command's name; "" for nothing. CLI11 would only say that an argument was not expected.
std::string unknown_command(const CLI::App& app, int argc, char** argv);
/// Prints CLI11's own words, but for what it only calls "required" or not expected, and with the command that they are about. @return kUsage
int usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace patchbay::app
