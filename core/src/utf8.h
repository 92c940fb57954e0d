/// @file utf8.h
/// UTF-8, strictly as Unicode's table of well-formed byte sequences (table 3-7) has it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "patchbay/error.h"

namespace patchbay {

/// What stands at the head of some bytes.
struct Utf8Unit {
  enum class Kind {
    character,   ///< a well-formed character of `bytes` bytes
    unfinished,  ///< all that is left is the beginning of a character
    invalid,     ///< `bytes` bytes that can't become a character: the "maximal subpart" that one U+FFFD replaces
  };
  Kind kind = Kind::invalid;
  std::size_t bytes = 1;
  char32_t code_point = 0;  ///< of a character
};
/// `text` must not be empty.
PATCHBAY_API Utf8Unit first_utf8_unit(std::string_view text);

PATCHBAY_API bool is_utf8(std::string_view text);
/// True when a terminal may act on the character instead of showing it: controls, line separators, direction overrides.
PATCHBAY_API bool is_control(char32_t code_point);
/// True when `text` is UTF-8 without controls.
PATCHBAY_API bool is_plain_text(std::string_view text);
/// Safe to print on one line: controls and stray bytes as `\n`, `\t`, `\r`, `\xNN` or `\u{NNNN}`, a backslash doubled; at most `limit`
/// bytes of the text, then "...".
PATCHBAY_API std::string escaped(std::string_view text, std::size_t limit = std::string_view::npos);
PATCHBAY_API void append_utf8(std::string& text, char32_t code_point);

}  // namespace patchbay
