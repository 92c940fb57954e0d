/// @file space.h
/// White space at the ends of texts.
#pragma once
#include <string_view>

#include "jinja/unicode_text.h"
#include "utf8.h"

namespace patchbay::jinja {

/// Bytes of white space that a text begins with.
inline std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Unit unit = first_utf8_unit(text.substr(at));
    if (!is_space(unit.code_point)) break;
    at += unit.bytes;
  }
  return at;
}

/// Where a text's last character begins.
inline std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

/// Bytes of white space that a text ends with.
inline std::size_t trailing_space(std::string_view text) {
  std::size_t kept = text.size();
  while (kept > 0) {
    const std::size_t last = last_character(text.substr(0, kept));
    if (!is_space(first_utf8_unit(text.substr(last)).code_point)) break;
    kept = last;
  }
  return text.size() - kept;
}

}  // namespace patchbay::jinja
