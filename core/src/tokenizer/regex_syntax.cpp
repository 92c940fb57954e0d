// Oniguruma's syntax to PCRE2's. Most is the same; what differs silently is what this file is about.
#include <fmt/format.h>

#include <vector>

#include "tokenizer/regex.h"
#include "utf8.h"

namespace patchbay {
namespace {

// Unicode's White_Space, as members of a class. PCRE2's own \s also takes U+180E, which lost that property in Unicode 6.3.
constexpr std::string_view kSpace = R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// [:word:] takes marks, which PCRE2's does not, and no numbers but decimal digits and letters; \w also takes the ones of Latin-1, as tried.
constexpr std::string_view kPosixWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) element();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(fmt::format("pattern '{}', byte {}", escaped(pattern_, 200), at_), fmt::format("{} is not supported here", what));
  }
  bool ahead(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void element() {
    const char c = pattern_[at_];
    if (c == '{' || c == '*' || c == '+' || c == '?') return quantifier();
    if (c == ')') {
      copy(1);
      if (groups_.empty()) refuse("a ) without its (");
      atom_ = groups_.back();
      groups_.pop_back();
      return;
    }
    if (c == '(') return group();
    atom_ = out_.size();
    if (c == '[') return character_class();
    if (c == '\\') return escape(false);
    copy(1);
    while (at_ < pattern_.size() && (pattern_[at_] & 0xC0) == 0x80) copy(1);
  }

  void group() {
    groups_.push_back(out_.size());
    copy(1);
    if (!ahead("?")) return;
    std::size_t end = at_ + 1;
    while (end < pattern_.size() && std::string_view("imx-").find(pattern_[end]) != std::string_view::npos) ++end;
    if (end == at_ + 1 || end == pattern_.size() || (pattern_[end] != ':' && pattern_[end] != ')')) return;  // no flags
    for (; at_ < end; ++at_) out_ += pattern_[at_] == 'm' ? 's' : pattern_[at_];  // Ruby's m: a dot takes newlines
  }

  // {1,3}+ is a repeated repeat, not a possessive one; {,3} means {0,3}.
  void quantifier() {
    if (pattern_[at_] != '{') return copy(1);
    const std::size_t close = pattern_.find('}', at_);
    const bool counts = close != std::string_view::npos && close > at_ + 1 &&
                        pattern_.substr(at_ + 1, close - at_ - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    if (!counts) {
      atom_ = out_.size();
      out_ += '\\';
      return copy(1);
    }
    out_ += '{';
    if (pattern_[++at_] == ',') out_ += '0';
    copy(close + 1 - at_);
    if (!ahead("+")) return;
    out_.insert(atom_, "(?:");
    out_ += ')';
    copy(1);
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a \\ at the end");
    const char c = pattern_[at_ + 1];
    const auto list = [&](std::string_view members, bool negated) {
      if (in_class && negated) refuse(fmt::format("\\{} inside [ ]", c));
      out_ += in_class ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members);
      at_ += 2;
    };
    switch (c) {
      case 's': return list(kSpace, false);
      case 'S':
        if (!in_class) return list(kSpace, true);
        out_ += "\\P{White_Space}";
        at_ += 2;
        return;
      case 'w': return list(kWord, false);
      case 'W': return list(kWord, true);
      case 'h': return list(kHexDigit, false);
      case 'H': return list(kHexDigit, true);
      case 'u': {
        const std::string_view digits = pattern_.substr(at_ + 2, 4);
        if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) refuse("\\u without four hex digits");
        out_ += fmt::format("\\x{{{}}}", digits);
        at_ += 6;
        return;
      }
      case 'p':
      case 'P': return property();
      default: copy(2);
    }
  }

  // \p{Han} is a script here; PCRE2 would take the characters that may also be used with it.
  void property() {
    const std::size_t close = pattern_.find('}', at_);
    if (pattern_.substr(at_ + 2, 1) != "{" || close == std::string_view::npos) return copy(2);
    copy(3);
    if (ahead("^")) copy(1);
    const std::string_view name = pattern_.substr(at_, close - at_);
    constexpr std::pair<std::string_view, std::string_view> kLong[] = {{"Letter", "L"},    {"Mark", "M"},      {"Number", "N"}, {"Punctuation", "P"},
                                                                       {"Symbol", "S"},    {"Separator", "Z"}, {"Other", "C"},  {"Alphabetic", "Alphabetic"},
                                                                       {"Any", "Any"},     {"White_Space", "White_Space"}};
    for (const auto& [given, short_name] : kLong) {
      if (name != given) continue;
      out_ += short_name;
      at_ = close;
      return copy(1);
    }
    if (name.size() > 2) out_ += "sc:";
    copy(close + 1 - at_);
  }

  void posix_class() {
    constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
        {"alnum", R"(\p{Alphabetic}\p{Nd})"}, {"alpha", R"(\p{Alphabetic})"}, {"blank", R"(\p{Zs}\t)"},   {"cntrl", R"(\p{Cc})"},
        {"digit", R"(\p{Nd})"},               {"lower", R"(\p{Lowercase})"},  {"punct", R"(\p{P}\p{S})"}, {"space", kSpace},
        {"upper", R"(\p{Uppercase})"},        {"word", kPosixWord},                {"xdigit", kHexDigit}};
    const std::size_t close = pattern_.find(":]", at_);
    if (close == std::string_view::npos) refuse("[: without :]");
    const std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
    for (const auto& [given, members] : kClasses) {
      if (name != given) continue;
      out_ += members;
      at_ = close + 2;
      return;
    }
    refuse(fmt::format("[:{}:]", escaped(name, 30)));
  }

  void character_class() {
    copy(1);
    if (ahead("^")) copy(1);
    if (ahead("]")) copy(1);
    while (true) {
      if (at_ >= pattern_.size()) refuse("a [ without its ]");
      if (ahead("&&")) refuse("&& in [ ]");
      if (ahead("[:")) {
        posix_class();
      } else if (pattern_[at_] == '[') {
        refuse("[ inside [ ]");
      } else if (pattern_[at_] == '\\') {
        escape(true);
      } else if (pattern_[at_] == ']') {
        return copy(1);
      } else {
        copy(1);
      }
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0, atom_ = 0;     ///< atom_: where in out_ the last element that can be repeated begins
  std::vector<std::size_t> groups_;   ///< where in out_ the open groups begin
  std::string out_;
};

}  // namespace

std::string translated_from_oniguruma(std::string_view pattern) {
  if (!is_utf8(pattern)) throw Error(fmt::format("pattern '{}'", escaped(pattern, 200)), "is not UTF-8");
  return Translation(pattern).run();
}

}  // namespace patchbay
