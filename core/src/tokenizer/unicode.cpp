// The only home of ICU.
#include "tokenizer/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "jinja/unicode_text.h"

namespace patchbay {
namespace {

constexpr std::size_t kLongRun = 64;  // marks on one letter; Unicode's stream-safe format allows 30

void check(UErrorCode code) {
  if (U_FAILURE(code)) throw Error("Unicode library (ICU)", u_errorName(code));
}

const icu::Normalizer2& normalizer(normalizers::Unicode::Form form) {
  using Form = normalizers::Unicode::Form;
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* found = form == Form::nfc    ? icu::Normalizer2::getNFCInstance(code)
                                  : form == Form::nfd  ? icu::Normalizer2::getNFDInstance(code)
                                  : form == Form::nfkc ? icu::Normalizer2::getNFKCInstance(code)
                                                       : icu::Normalizer2::getNFKDInstance(code);
  check(code);
  return *found;
}

/// The same text, canonically, with long runs of combining marks in canonical order: ICU orders by insertion, which takes quadratic time.
std::string with_long_runs_ordered(std::string_view text) {
  struct Mark { int order; std::string_view bytes; };
  std::vector<Mark> run;
  std::string result;
  result.reserve(text.size());
  const auto flush = [&] {
    if (run.size() > kLongRun) std::ranges::stable_sort(run, {}, &Mark::order);
    for (const Mark& mark : run) result += mark.bytes;
    run.clear();
  };
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const int order = c < 0x300 ? 0 : u_getCombiningClass(static_cast<UChar32>(c));
    if (order == 0) {
      flush();
      result += bytes;
    } else {
      run.push_back({order, bytes});
    }
  });
  flush();
  return result;
}

}  // namespace

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }
bool is_mark(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0; }
bool is_nonspacing_mark(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK; }
bool is_other(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_C_MASK) != 0; }
bool is_word(char32_t c) {
  const auto character = static_cast<UChar32>(c);
  return u_hasBinaryProperty(character, UCHAR_ALPHABETIC) || u_hasBinaryProperty(character, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(character) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

void append_lowercase(char32_t c, std::string& text) {
  if (c == 0x130) {  // the one character whose lower case is two
    text += "i\xCC\x87";
  } else {
    append_utf8(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
  }
}

std::string unicode_normalized(std::string_view text, normalizers::Unicode::Form form) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  const std::string ordered = with_long_runs_ordered(text);
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode code = U_ZERO_ERROR;
  normalizer(form).normalizeUTF8(0, icu::StringPiece(ordered.data(), static_cast<std::int32_t>(ordered.size())), sink, nullptr, code);
  check(code);
  return result;
}

void for_each_grapheme(std::string_view text, FunctionRef<void(std::string_view)> grapheme) {
  UErrorCode code = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), code));
  check(code);
  const std::unique_ptr<UText, decltype(&utext_close)> view(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &code), &utext_close);
  check(code);
  breaks->setText(view.get(), code);
  check(code);
  std::int32_t begin = breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next()) {
    grapheme(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
}

ScriptGroup script_group(char32_t c) {
  if (c == ' ') return ScriptGroup::any;
  UErrorCode code = U_ZERO_ERROR;
  UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &code);
  check(code);
  if (c == 0x30FC || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA) script = USCRIPT_HAN;
  return static_cast<ScriptGroup>(static_cast<int>(script));
}

}  // namespace patchbay

namespace patchbay::jinja {
namespace {

bool has_type(char32_t c, std::uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }
UNumericType numeric_type(char32_t c) { return static_cast<UNumericType>(u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE)); }

/// One of ICU's case mappings, with the locale that has no rules of its own.
template <class Map>
std::string mapped(std::string_view text, Map map) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode code = U_ZERO_ERROR;
  map(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink, code);
  check(code);
  return result;
}

}  // namespace

bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }
bool is_printable(char32_t c) { return c == ' ' || !has_type(c, U_GC_C_MASK | U_GC_Z_MASK); }
bool is_line_end(char32_t c) { return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029; }
bool is_upper(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE); }
bool is_lower(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE); }
bool is_title(char32_t c) { return has_type(c, U_GC_LT_MASK); }
bool is_alphabetic(char32_t c) { return has_type(c, U_GC_L_MASK); }
bool is_decimal(char32_t c) { return has_type(c, U_GC_ND_MASK); }
int decimal_value(char32_t c) { return u_charDigitValue(static_cast<UChar32>(c)); }
bool is_digit(char32_t c) { return numeric_type(c) == U_NT_DECIMAL || numeric_type(c) == U_NT_DIGIT; }
bool is_numeric(char32_t c) { return numeric_type(c) != U_NT_NONE; }

std::string upper(std::string_view text) {
  return mapped(text, [](const auto& from, auto& to, UErrorCode& code) { icu::CaseMap::utf8ToUpper("", 0, from, to, nullptr, code); });
}
std::string lower(std::string_view text) {
  return mapped(text, [](const auto& from, auto& to, UErrorCode& code) { icu::CaseMap::utf8ToLower("", 0, from, to, nullptr, code); });
}
std::string title_first(std::string_view text) {
  if (text.empty()) return {};
  const std::string_view first = text.substr(0, first_utf8_unit(text).bytes);
  const auto to_title = [](const auto& from, auto& to, UErrorCode& code) { icu::CaseMap::utf8ToTitle("", U_TITLECASE_NO_BREAK_ADJUSTMENT, nullptr, from, to, nullptr, code); };
  return mapped(first, to_title) + std::string(text.substr(first.size()));
}

}  // namespace patchbay::jinja
