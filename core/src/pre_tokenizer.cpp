// Pre-tokenisation by regular expression. PCRE2, because the patterns need Unicode classes and a lookahead, because it does not
// recurse once per character (std::regex does, and a long run of letters overflows the stack), and because it stays linear here.
#include "pre_tokenizer.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "utf8.h"

namespace patchbay {
namespace {

// The patterns as published with the models (GPT-2's encoder, Llama 3's and Qwen 2's tokenizer.json).
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";  // each digit alone

// Unicode's White_Space. PCRE2's own \s also takes U+180E, which lost that property in Unicode 6.3.
constexpr std::string_view kSpace = R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}
/// \s and \S spelled out; a class may hold \s as its first member.
std::string with_unicode_space(std::string_view published) {
  std::string pattern(published);
  const std::string list(kSpace);
  replace_all(pattern, R"(\S)", "[^" + list + "]");
  replace_all(pattern, R"([^\s)", "[^" + list);
  replace_all(pattern, R"(\s)", "[" + list + "]");
  return pattern;
}

const std::vector<PreTokenizerKind>& known_kinds() {
  static const std::vector<PreTokenizerKind> kinds = {
      {"gpt-2", {kGpt2}},
      {"llama-bpe", {kLlama3}, true, true},
      {"qwen2", {kQwen2}},
      {"smollm", {kDigit, kGpt2}},
  };
  return kinds;
}

const PreTokenizerKind& find_kind(std::string_view name, const std::string& where) {
  std::string names;
  for (const PreTokenizerKind& kind : known_kinds()) {
    if (kind.name == name) return kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  }
  throw Error(where, fmt::format("unknown pre-tokenizer '{}'", escaped(name, 60)), names);
}

std::string message_of(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct FreeMatch { void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); } };

}  // namespace

class PreTokenizer::Pattern {
 public:
  explicit Pattern(std::string_view published) {
    const std::string pattern = with_unicode_space(published);
    int error = 0;
    PCRE2_SIZE at = 0;
    const auto* text = reinterpret_cast<PCRE2_SPTR>(pattern.data());
    code_ = pcre2_compile(text, pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    if (code_ == nullptr) throw Error(fmt::format("pattern {}", published), fmt::format("{} at {}", message_of(error), at));
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // where it fails, pcre2_match interprets: slower, the same result
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Matches, and what lies between them. `text` is UTF-8.
  void split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create_from_pattern(code_, nullptr));
    std::size_t done = 0;
    while (done < text.size()) {
      const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done, PCRE2_NO_UTF_CHECK,
                                    match.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) throw Error("pre-tokenizer", message_of(found));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
      if (ends[0] > done) piece(text.substr(done, ends[0] - done));
      piece(text.substr(ends[0], ends[1] - ends[0]));  // never empty: each branch takes a character
      done = ends[1];
    }
    if (done < text.size()) piece(text.substr(done));
  }

 private:
  pcre2_code* code_ = nullptr;
};

PreTokenizer::PreTokenizer(std::string_view name, const std::string& where) : kind_(find_kind(name, where)) {
  for (const std::string_view pattern : kind_.patterns) patterns_.push_back(std::make_unique<Pattern>(pattern));
}
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split_by(std::size_t pattern, std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  if (pattern == patterns_.size()) return piece(text);
  patterns_[pattern]->split(text, [&](std::string_view part) { split_by(pattern + 1, part, piece); });
}

void PreTokenizer::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  while (!text.empty()) {
    std::size_t good = 0;
    Utf8Unit unit;
    while (good < text.size()) {
      unit = first_utf8_unit(text.substr(good));
      if (unit.kind != Utf8Unit::Kind::character) break;
      good += unit.bytes;
    }
    if (good > 0) split_by(0, text.substr(0, good), piece);
    if (good < text.size()) piece(text.substr(good, unit.bytes));
    text.remove_prefix(good < text.size() ? good + unit.bytes : good);
  }
}

}  // namespace patchbay
