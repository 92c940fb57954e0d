// UTF-8: what is a character, what is safe on a terminal, and text that comes in pieces.
#include "utf8.h"

#include <catch2/catch.hpp>

#include "tokenizer.h"
#include "utf8_prefix.h"

using namespace patchbay;

namespace {

const std::string kReplacement = "\xEF\xBF\xBD", kSquid = "\xF0\x9F\xA6\x91";

std::string joined(const std::vector<std::string>& pieces) {
  Utf8Stream stream;
  std::string text;
  for (const std::string& piece : pieces) {
    text += stream.push(piece);
    CHECK(is_utf8(text));  // at no time half a character
  }
  return text + stream.finish();
}

}  // namespace

TEST_CASE("the stream holds back half a character and sends it whole") {
  Utf8Stream stream;
  CHECK(stream.push("a\xF0\x9F\xA6") == "a");
  CHECK(stream.push("\x91" "b") == kSquid + "b");
  CHECK(stream.finish().empty());
}

TEST_CASE("where a text stops being UTF-8") {
  CHECK(utf8_prefix("") == 0);
  CHECK(utf8_prefix("a" + kSquid) == 5);
  CHECK(utf8_prefix(kSquid + "\xFF" "b") == 4);
  CHECK(utf8_prefix("ab\xF0\x9F") == 2);
}

TEST_CASE("a dangling tail becomes one replacement character") {
  CHECK(joined({"ab", "\xF0\x9F"}) == "ab" + kReplacement);
  CHECK(joined({"\xE4\xB8"}) == kReplacement);
  CHECK(joined({""}).empty());
}

TEST_CASE("stray bytes: one replacement per maximal subpart, as the Unicode standard's table 3-8") {
  // 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64
  CHECK(joined({"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"}) ==
        "a" + kReplacement + kReplacement + kReplacement + "b" + kReplacement + "c" + kReplacement + kReplacement + "d");
  CHECK(joined({"\xC0\x80"}) == kReplacement + kReplacement);                              // overlong
  CHECK(joined({"\xED\xA0\x80"}) == kReplacement + kReplacement + kReplacement);           // surrogate
  CHECK(joined({"\xF4\x90\x80\x80"}) == kReplacement + kReplacement + kReplacement + kReplacement);  // past U+10FFFF
}

TEST_CASE("cutting a text anywhere does not change what the stream gives") {
  const std::string text = "a\xC3\xA9\xE7\x95\x8C" + kSquid + "\xF0\x9F" "z\xFF" + std::string(1, '\0') + "\xE2\x82";
  const std::string whole = joined({text});
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (std::size_t k = i; k <= text.size(); ++k) CHECK(joined({text.substr(0, i), text.substr(i, k - i), text.substr(k)}) == whole);
  }
}

TEST_CASE("well-formed text: the ends of every range") {
  for (const char32_t c : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text;
    append_utf8(text, c);
    const Utf8Unit unit = first_utf8_unit(text);
    CHECK(unit.kind == Utf8Unit::Kind::character);
    CHECK(unit.code_point == c);
    CHECK(unit.bytes == text.size());
  }
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF5\x80\x80\x80", "\xFF"}) {
    CHECK(!is_utf8(bad));
  }
}

TEST_CASE("escaped text can't steer a terminal") {
  CHECK(escaped("plain gr\xC3\xBC\xC3\x9F") == "plain gr\xC3\xBC\xC3\x9F");
  CHECK(escaped("\x1b[31m\n\t\r\\") == "\\x1b[31m\\n\\t\\r\\\\");
  CHECK(escaped("\xFF\xC3") == "\\xff\\xc3");
  CHECK(escaped("\xE2\x80\xAE") == "\\u{202e}");  // right-to-left override
  CHECK(escaped("\xC2\x9B") == "\\u{009b}");      // the one-character form of ESC [
  CHECK(escaped("abcdef", 3) == "abc...");
  CHECK(is_plain_text("ok"));
  CHECK(!is_plain_text(std::string("a\0b", 3)));
}
