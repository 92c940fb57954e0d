// `text % values` and text.format(values).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "jinja/operators.h"
#include "jinja/text_tools.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

constexpr int kMaxWidth = 1000;

/// One field of a % format: %(name)-08.3f
struct Field {
  std::optional<std::string> name;
  std::string flags;
  int width = 0, precision = -1;
  char letter = 0;
};

class PercentFormat {
 public:
  PercentFormat(const Text& format, const Value& values, Budget& budget) : format_(format), values_(values), budget_(budget) {
    const Sequence* sequence = values.sequence();
    if (sequence != nullptr && sequence->kind == Sequence::Kind::tuple) {
      positional_ = sequence->items;
    } else {
      positional_ = {values};
    }
  }

  Text run() {
    const std::string_view text = format_.view();
    while (at_ < text.size()) {
      const std::size_t percent = std::min(text.find('%', at_), text.size());
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      if (percent < text.size()) write_field();
      budget_.charge(8 + out_.size() / 8);
      budget_.check_size(out_.size());
    }
    const bool takes_all = used_ == positional_.size() || values_.dict() || (used_ == 0 && values_.sequence() && values_.sequence()->kind == Sequence::Kind::list);
    if (!takes_all) fail("'%' has more values than fields");
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_.bytes()[at_] : '\0'; }
  int read_number() {
    int number = 0;
    while (peek() >= '0' && peek() <= '9' && number <= kMaxWidth) number = 10 * number + (format_.bytes()[at_++] - '0');
    if (number > kMaxWidth) fail("a field of '%' is too wide", "up to " + std::to_string(kMaxWidth));
    return number;
  }

  Field read_field() {
    Field field;
    if (peek() == '(') {
      const std::size_t end = format_.bytes().find(')', at_);
      if (end == std::string::npos) fail("a name in a '%' format is not closed", "')'");
      field.name = format_.bytes().substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    }
    while (peek() != '\0' && std::string_view("-+ 0#").find(peek()) != std::string_view::npos) field.flags += format_.bytes()[at_++];
    field.width = read_number();
    if (peek() == '.') ++at_, field.precision = read_number();
    field.letter = peek();
    if (field.letter == '\0') fail("a '%' format ends within a field");
    ++at_;
    return field;
  }

  Value value_of(const Field& field) {
    if (field.name) {
      if (!values_.dict()) fail("a '%' format names its values", "a dict after the '%'");
      const Value* found = find(*values_.dict(), Value::text(*field.name), budget_);
      if (found == nullptr) fail("a '%' format asks for '" + escaped(*field.name, 40) + "', which the dict does not have");
      return *found;
    }
    if (used_ >= positional_.size()) fail("'%' has more fields than values");
    return positional_[used_++];
  }

  void write_field() {
    const Field field = read_field();
    if (field.letter == '%') return out_.append("%", Origin::frame);
    const Value value = value_of(field);
    Text text;
    if (field.letter == 's' || field.letter == 'r') {
      text = field.letter == 's' ? to_text(value, budget_) : to_repr(value, budget_);
      if (field.precision >= 0) text = text.slice(0, byte_of_character(text.view(), static_cast<std::size_t>(field.precision)));
    } else {
      text = Text(number(field, value), Origin::frame);
    }
    pad(std::move(text), field);
  }

  static std::string number(const Field& field, const Value& value) {
    require_defined(value);
    const bool real = std::string_view("eEfFgG").find(field.letter) != std::string_view::npos;
    if (!real && std::string_view("diuxXo").find(field.letter) == std::string_view::npos) {
      fail(fmt::format("unknown field '%{}'", escaped(std::string_view(&field.letter, 1))), "s, r, d, i, x, X, o, e, f, g and %%");
    }
    const bool decimal = std::string_view("diu").find(field.letter) != std::string_view::npos;
    if (!value.is_number() || (!real && !decimal && value.is_real())) fail(fmt::format("'%{}' does not take a {}", field.letter, value.type_name()));
    std::string flags;
    for (const char flag : std::string_view("+ #")) if (field.flags.find(flag) != std::string::npos) flags += flag;
    std::string precision = field.precision >= 0 ? "." + std::to_string(field.precision) : "";
    char written[2048];
    if (real) {
      std::snprintf(written, sizeof written, ("%" + flags + precision + field.letter).c_str(), value.real());
    } else {
      std::int64_t integer = 0;
      if (value.is_real() && !(value.real() > -0x1p63 && value.real() < 0x1p63)) fail("a number does not fit 64 bits");
      integer = value.is_real() ? static_cast<std::int64_t>(value.real()) : value.integer();
      const std::string sign = integer < 0 ? "-" : flags.find('+') != std::string::npos ? "+" : flags.find(' ') != std::string::npos ? " " : "";
      const std::uint64_t size = integer < 0 ? 0 - static_cast<std::uint64_t>(integer) : static_cast<std::uint64_t>(integer);
      const bool alternate = flags.find('#') != std::string::npos;
      const std::string prefix = alternate && field.letter == 'o' ? "0o" : alternate && field.letter == 'x' ? "0x" : alternate && field.letter == 'X' ? "0X" : "";
      std::snprintf(written, sizeof written, ("%" + precision + "l" + (decimal ? 'u' : field.letter)).c_str(), static_cast<unsigned long>(size));
      return sign + prefix + written;
    }
    return written;
  }

  void pad(Text text, const Field& field) {
    const std::size_t characters = character_count(text.view()), width = static_cast<std::size_t>(field.width);
    const std::size_t missing = width > characters ? width - characters : 0;
    const bool left = field.flags.find('-') != std::string::npos;
    const bool zeros = !left && field.flags.find('0') != std::string::npos && field.letter != 's' && field.letter != 'r';
    if (left) {
      out_.append(text);
      out_.append(std::string(missing, ' '), Origin::frame);
    } else if (zeros) {
      const std::size_t sign = text.bytes().find_first_of("0123456789in");
      const std::size_t prefix = text.bytes().find_first_of("xXo") == sign + 1 ? sign + 2 : sign;
      out_.append(text, 0, prefix);
      out_.append(std::string(missing, '0'), Origin::frame);
      out_.append(text, prefix, text.size());
    } else {
      out_.append(std::string(missing, ' '), Origin::frame);
      out_.append(text);
    }
  }

  const Text& format_;
  const Value& values_;
  Budget& budget_;
  std::vector<Value> positional_;
  std::size_t used_ = 0, at_ = 0;
  Text out_;
};

}  // namespace

Text formatted(const Text& format, const Value& values, Budget& budget) { return PercentFormat(format, values, budget).run(); }

Text format_braces(const Text& format, const Arguments& arguments, Budget& budget) {
  Text out;
  std::size_t next = 0, counted = 0;
  bool numbered = false;
  const std::string& text = format.bytes();
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool brace = text[at] == '{' || text[at] == '}';
    if (!brace || (at + 1 < text.size() && text[at + 1] == text[at])) {
      out.append(format, at, at + 1);
      if (brace) ++at;
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (text[at] == '}' || end == std::string::npos) fail("a single brace in format()", "'{{' and '}}' for braces as text");
    const std::string name = text.substr(at + 1, end - at - 1);
    const bool number = !name.empty() && name.size() < 6 && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const Value* value = nullptr;
    if (name.empty() || number) {
      if (counted++ > 0 && number != numbered) fail("format() with {} and {0}", "one of the two kinds");
      numbered = number;
      const std::size_t index = number ? std::stoul(name) : next++;
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else {
      if (name.find_first_of(".[!:{") != std::string::npos) fail("format() with the field '{" + escaped(name, 40) + "}'", "{}, {0} and {name}");
      const auto found = std::ranges::find(arguments.named, name, [](const auto& entry) -> const std::string& { return entry.first.bytes(); });
      if (found != arguments.named.end()) value = &found->second;
    }
    if (value == nullptr) fail("format() has no value for the field '{" + escaped(name, 40) + "}'");
    out.append(to_text(*value, budget));
    budget.charge(8);
    budget.check_size(out.size());
    at = end;
  }
  return out;
}

}  // namespace patchbay::jinja
