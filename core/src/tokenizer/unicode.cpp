// The only home of ICU.
#include "tokenizer/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <vector>

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
