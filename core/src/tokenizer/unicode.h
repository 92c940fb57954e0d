/// @file unicode.h
/// What the normalizers need to know of Unicode, from ICU. All texts are UTF-8.
#pragma once
#include <string>
#include <string_view>

#include "patchbay/tensor.h"
#include "tokenizer/description.h"

namespace patchbay {

bool is_white_space(char32_t c);
bool is_mark(char32_t c);            ///< categories Mn, Mc, Me
bool is_nonspacing_mark(char32_t c); ///< Mn
bool is_other(char32_t c);           ///< Cc, Cf, Cn, Co, Cs
bool is_word(char32_t c);            ///< letters, marks, decimal digits, connecting punctuation, joiners
/// Appends the lower case of one character, whatever stands beside it.
void append_lowercase(char32_t c, std::string& text);

/// Time n log n, whatever the text.
std::string unicode_normalized(std::string_view text, normalizers::Unicode::Form form);

/// Calls grapheme(part) for each user-perceived character (extended grapheme cluster).
void for_each_grapheme(std::string_view text, FunctionRef<void(std::string_view)> grapheme);

/// The script of a character as Hugging Face's UnicodeScripts sees it: kana are Han, and a space has none.
enum class ScriptGroup : int { any = -1 };
ScriptGroup script_group(char32_t c);

/// Calls character(code_point, bytes) for each character of UTF-8 text.
template <class Each>
void for_each_character(std::string_view text, Each&& each);

}  // namespace patchbay

#include "utf8.h"

namespace patchbay {

template <class Each>
void for_each_character(std::string_view text, Each&& each) {
  while (!text.empty()) {
    const Utf8Unit unit = first_utf8_unit(text);
    each(unit.code_point, text.substr(0, unit.bytes));
    text.remove_prefix(unit.bytes);
  }
}

}  // namespace patchbay
