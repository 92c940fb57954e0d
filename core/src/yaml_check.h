/// @file yaml_check.h
/// What YAML text must satisfy before a parser sees it.
#pragma once
#include <string>
#include <string_view>

namespace patchbay {

inline constexpr std::size_t kMaxYamlBytes = 1 << 20;

/// Size, UTF-8, control bytes and directives. @throws Error with `file_name` and line.
void check_yaml_text(std::string_view text, const std::string& file_name);
/// A key or value as decoded: control characters (but line break and tab) and over-long text. @throws Error at `where`.
void check_scalar_text(std::string_view text, const std::string& where);

}  // namespace patchbay
