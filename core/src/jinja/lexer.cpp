#include "jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "jinja/limits.h"
#include "jinja/space.h"
#include "jinja/string_literal.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"};

bool is_digit_of(char c, int base) {
  return base <= 10 ? c >= '0' && c < '0' + base : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }

/// One way of breaking lines, and no line break at the very end.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    text += source[i] == '\r' ? '\n' : source[i];
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_lines(source)), source_(text_) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data_and_tag();
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_, 0, 0}); }
  /// Goes on by so many bytes. Whether the next text begins a line shows at their end.
  void skip(std::size_t bytes) {
    const std::string_view passed = source_.substr(at_, bytes);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    if (!passed.empty()) at_line_start_ = passed.ends_with('\n');
    at_ += passed.size();
  }
  void skip_spaces() { skip(leading_space(source_.substr(at_))); }

  // text between tags --------------------------------------------------------------------------------------------------------

  void read_data_and_tag() {
    std::size_t begin = at_;
    do {
      begin = std::min(source_.find('{', begin), source_.size());
      if (begin + 1 < source_.size() && std::string_view("%{#").find(source_[begin + 1]) != std::string_view::npos) break;
    } while (begin++ < source_.size());
    begin = std::min(begin, source_.size());
    const std::string_view data = source_.substr(at_, begin - at_);
    if (begin == source_.size()) return add_data(data, data.size());
    const char kind = source_[begin + 1], sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    add_data(data.substr(0, kept_before(data, sign, kind != '{')), data.size());
    const int line = line_;
    const bool signed_tag = sign == '-' || sign == '+';
    skip(signed_tag ? 3 : 2);
    if (kind == '#') return skip_comment(line);
    if (kind == '%' && read_raw(line)) return;
    tokens_.push_back({kind == '%' ? Kind::block_begin : Kind::variable_begin, "", line, 0, 0});
    read_tag(kind == '%', line);
  }

  /// How much of the text before a tag stays: '-' takes all white space away, a block tag the indentation of its line unless '+' keeps it.
  std::size_t kept_before(std::string_view data, char sign, bool block) const {
    if (sign == '-') return data.size() - trailing_space(data);
    const std::size_t line = data.rfind('\n') + 1;  // 0 where there is none
    const bool indents = (line > 0 || at_line_start_) && leading_space(data.substr(line)) == data.size() - line;
    return block && sign != '+' && indents ? line : data.size();
  }

  void add_data(std::string_view kept, std::size_t bytes) {
    if (!kept.empty()) add(Kind::data, std::string(kept));
    skip(bytes);
  }

  void skip_comment(int line) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail_at(line, "a comment is not closed", "'#}' at its end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    skip(end + 2 - at_);
    close_tag(sign, true);
  }

  /// After a tag: white space that goes with it.
  void close_tag(char sign, bool trims_line) {
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims_line && peek() == '\n') {
      skip(1);
    }
  }

  /// {% raw %} text {% endraw %}: the text as it stands.
  bool read_raw(int line) {
    const std::optional<Tag> begin = tag_at(at_, "raw");
    if (!begin || begin->closing_sign == '+') return false;
    skip(begin->end - at_);
    if (begin->closing_sign == '-') skip_spaces();
    for (std::size_t open = source_.find("{%", at_); open != std::string_view::npos; open = source_.find("{%", open + 1)) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      const std::optional<Tag> end = tag_at(open + (sign == '-' || sign == '+' ? 3 : 2), "endraw");
      if (!end) continue;
      const std::string_view data = source_.substr(at_, open - at_);
      add_data(data.substr(0, kept_before(data, sign, true)), data.size());
      skip(end->end - at_);
      close_tag(end->closing_sign, true);
      return true;
    }
    fail_at(line, "a raw block is not closed", "{% endraw %} at its end");
  }

  struct Tag { std::size_t end; char closing_sign; };
  /// Whether a tag that is just this word goes on at `at`.
  std::optional<Tag> tag_at(std::size_t at, std::string_view word) const {
    at += leading_space(source_.substr(at));
    if (!source_.substr(at).starts_with(word)) return std::nullopt;
    at += word.size();
    at += leading_space(source_.substr(at));
    const char sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
    if (sign != '\0') ++at;
    if (!source_.substr(at).starts_with("%}")) return std::nullopt;
    return Tag{at + 2, sign};
  }

  // inside of tags -----------------------------------------------------------------------------------------------------------

  void read_tag(bool block, int line) {
    const std::string_view end = block ? "%}" : "}}";
    std::string open;  // brackets that wait for their partners
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) fail_at(line, "a tag is not closed", std::string(end) + " at its end");
      const bool with_sign = (peek() == '-' || (block && peek() == '+')) && source_.substr(at_ + 1).starts_with(end);
      if (open.empty() && (with_sign || looking_at(end))) {
        const char sign = with_sign ? peek() : '\0';
        add(block ? Kind::block_end : Kind::variable_end, "");
        skip(with_sign ? 3 : 2);
        return close_tag(sign, block);
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = peek();
    if (c == '\'' || c == '"') return read_string();
    if (is_digit_of(c, 10)) return read_number();
    if (starts_name(c)) return read_name();
    const auto sign = std::ranges::find_if(kSigns, [&](std::string_view s) { return looking_at(s); });
    if (sign == std::end(kSigns)) fail_at(line_, "unexpected character '" + escaped(source_.substr(at_, first_utf8_unit(source_.substr(at_)).bytes)) + "'");
    balance(sign->front(), open);
    add(Kind::sign, std::string(*sign));
    skip(sign->size());
  }

  void balance(char c, std::string& open) const {
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open.empty() || open.back() != c) {
      fail_at(line_, std::string("unexpected '") + c + "'", open.empty() ? "" : std::string("'") + open.back() + "' first");
    }
    open.pop_back();
  }

  void read_name() {
    std::size_t size = 1;
    while (starts_name(peek(size)) || is_digit_of(peek(size), 10)) ++size;
    add(Kind::name, std::string(source_.substr(at_, size)));
    skip(size);
  }

  void read_string() {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != peek()) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, "a string is not closed");
    std::string decoded;
    try {
      decoded = decode_string(source_.substr(at_ + 1, end - at_ - 1));
    } catch (const Error& error) {
      fail_at(line_, error.problem(), error.allowed());
    }
    add(Kind::string, std::move(decoded));
    skip(end + 1 - at_);
  }

  /// Digits that underscores may part; their end.
  std::size_t digits_from(std::size_t at, int base) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && is_digit_of(source_[i], base); };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1) && at > at_)) ++at;
    return at;
  }

  void read_number() {
    const char second = peek(1);
    const int base = peek() != '0' ? 10 : second == 'x' || second == 'X' ? 16 : second == 'o' || second == 'O' ? 8 : second == 'b' || second == 'B' ? 2 : 10;
    const std::size_t first = at_ + (base == 10 ? 0 : 2);
    std::size_t end = digits_from(first, base);
    bool real = false;
    const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_digit_of(source_[i], 10); };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.1.2 are two subscripts
    if (base == 10 && !after_dot) {
      if (source_.substr(end).starts_with(".") && digit_at(end + 1)) real = true, end = digits_from(end + 1, 10);
      const char e = end < source_.size() ? source_[end] : '\0', sign = end + 1 < source_.size() ? source_[end + 1] : '\0';
      const std::size_t exponent = end + (sign == '+' || sign == '-' ? 2 : 1);
      if ((e == 'e' || e == 'E') && digit_at(exponent)) real = true, end = digits_from(exponent, 10);
    }
    std::string digits(source_.substr(first, end - first));
    std::erase(digits, '_');
    Token token{real ? Kind::real : Kind::integer, std::string(source_.substr(at_, end - at_)), line_, 0, 0};
    const char* last = digits.data() + digits.size();
    const auto result = real ? std::from_chars(digits.data(), last, token.real) : std::from_chars(digits.data(), last, token.integer, base);
    if (result.ec != std::errc() || result.ptr != last) fail_at(line_, "the number " + escaped(token.text, 40) + " cannot be held", "64 bits");
    tokens_.push_back(std::move(token));
    skip(end - at_);
  }

  std::string text_;
  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

void fail_at(int line, std::string problem, std::string allowed, std::string remedy) {
  throw Error("line " + std::to_string(line), std::move(problem), std::move(allowed), std::move(remedy));
}

}  // namespace patchbay::jinja
