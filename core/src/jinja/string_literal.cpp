#include "jinja/string_literal.h"

#include <charconv>

#include "jinja/limits.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

/// The number that `count` digits at `at` make, appended as a character. False where they are not there.
bool append_number(std::string_view written, std::size_t at, std::size_t count, int base, std::string& text) {
  unsigned value = 0;
  if (at + count > written.size()) return false;
  const char *begin = written.data() + at, *end = begin + count;
  const auto [rest, code] = std::from_chars(begin, end, value, base);
  if (code != std::errc() || rest != end) return false;
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("an escape stands for no character", "code points up to U+10FFFF, without surrogates");
  append_utf8(text, static_cast<char32_t>(value));
  return true;
}

std::size_t octal_digits(std::string_view written, std::size_t at) {
  std::size_t count = 0;
  while (count < 3 && at + count < written.size() && written[at + count] >= '0' && written[at + count] <= '7') ++count;
  return count;
}

}  // namespace

std::string decode_string(std::string_view written) {
  static constexpr std::string_view kLetters = "\n\\'\"abfnrtv", kMeanings("\0\\'\"\a\b\f\n\r\t\v", 11);
  std::string text;
  for (std::size_t at = 0; at < written.size(); ++at) {
    if (written[at] != '\\' || at + 1 == written.size()) {
      text += written[at];
      continue;
    }
    const char letter = written[++at];
    const std::size_t hex = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
      if (known > 0) text += kMeanings[known];  // an escaped line break is none
    } else if (hex > 0) {
      if (!append_number(written, at + 1, hex, 16, text)) fail(std::string("\\") + letter + " without its digits", std::to_string(hex) + " hexadecimal digits");
      at += hex;
    } else if (const std::size_t octal = octal_digits(written, at); octal > 0) {
      append_number(written, at, octal, 8, text);
      at += octal - 1;
    } else if (letter == 'N') {
      fail("\\N names a character", "\\u and the number of the character");
    } else {
      text += '\\';
      text += letter;
    }
  }
  return text;
}

}  // namespace patchbay::jinja
