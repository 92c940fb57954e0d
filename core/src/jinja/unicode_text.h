/// @file unicode_text.h
/// What Python's str methods know of Unicode; ICU answers (tokenizer/unicode.cpp).
#pragma once
#include <string>
#include <string_view>

namespace patchbay::jinja {

bool is_space(char32_t c);      ///< as str.strip() sees it: Unicode's white space and four separators of ASCII
bool is_printable(char32_t c);  ///< as repr() sees it
bool is_line_end(char32_t c);   ///< as str.splitlines() sees it
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_alphabetic(char32_t c);
bool is_decimal(char32_t c);
int decimal_value(char32_t c);  ///< 0 to 9, of a decimal digit of any script
bool is_digit(char32_t c);      ///< decimal digits and others such as superscripts
bool is_numeric(char32_t c);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The text's first character in title case, the rest as it is.
std::string title_first(std::string_view text);

}  // namespace patchbay::jinja
