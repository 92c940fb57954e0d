// str() and repr(), as Python writes them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "jinja/unicode_text.h"
#include "jinja/value.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

/// Single quotes, unless the text has those and no double ones; what cannot be printed as escapes.
void append_quoted(const Text& text, Text& out) {
  const std::string& bytes = text.bytes();
  const char quote = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), Origin::frame);
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Unit unit = first_utf8_unit(std::string_view(bytes).substr(at));
    const char32_t c = unit.code_point;
    std::string shown = bytes.substr(at, unit.bytes);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      shown = "\\" + shown;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      shown = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (!is_printable(c)) {
      const auto number = static_cast<unsigned>(c);
      shown = c < 0x100 ? fmt::format("\\x{:02x}", number) : c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    }
    out.append(shown, text.origin_at(at));
    at += unit.bytes;
  }
  out.append(std::string_view(&quote, 1), Origin::frame);
}

class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}

  Text run(const Value& value) {
    write(value);
    return std::move(out_);
  }

 private:
  void put(std::string_view bytes) {
    out_.append(bytes, Origin::frame);
    budget_.charge(8 + bytes.size());
    budget_.check_size(out_.size());
  }

  void write(const Value& value) {
    if (value.is_undefined()) {
      put("Undefined");
    } else if (value.is_text()) {
      budget_.charge(8 + value.text().size());
      append_quoted(value.text(), out_);
      budget_.check_size(out_.size());
    } else if (const Sequence* sequence = value.sequence()) {
      write_sequence(*sequence, value);
    } else if (const Dict* dict = value.dict()) {
      put("{");
      write_entries(dict->entries);
      put("}");
    } else {
      put(to_text(value, budget_).view());
    }
  }

  void write_entries(const std::vector<std::pair<Value, Value>>& entries) {
    bool first = true;
    for (const auto& [key, value] : entries) {
      if (!first) put(", ");
      first = false;
      write(key);
      put(": ");
      write(value);
    }
  }

  void write_sequence(const Sequence& sequence, const Value& value) {
    using Kind = Sequence::Kind;
    const auto& items = sequence.items;
    if (sequence.kind == Kind::generator) return put("<generator object>");
    if (sequence.kind == Kind::range) return write_range(items);
    const bool tuple = sequence.kind == Kind::tuple, list = sequence.kind == Kind::list;
    if (!tuple && !list) put(value.type_name() + "(");
    put(tuple ? "(" : "[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(", ");
      write(items[i]);
    }
    put(tuple ? (items.size() == 1 ? ",)" : ")") : "]");
    if (!tuple && !list) put(")");
  }

  /// How it was asked for is not kept: the shortest way to ask for these numbers.
  void write_range(const std::vector<Value>& items) {
    if (items.empty()) return put("range(0, 0)");
    const std::int64_t first = items[0].integer(), step = items.size() > 1 ? items[1].integer() - first : 1;
    const std::int64_t end = items.back().integer() + (step > 0 ? 1 : -1);
    put(step == 1 ? fmt::format("range({}, {})", first, end) : fmt::format("range({}, {}, {})", first, end, step));
  }

  Budget& budget_;
  Text out_;
};

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  const auto scientific = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view written(digits, static_cast<std::size_t>(scientific.ptr - digits));
  const std::size_t e = written.find('e');
  int exponent = 0;
  const char* sign = written.data() + e + 1;
  std::from_chars(*sign == '+' ? sign + 1 : sign, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(written);
  char fixed[400];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  std::string text(fixed, end.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Text to_text(const Value& value, Budget& budget) {
  if (value.is_text()) {
    budget.charge(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", Origin::frame};
  if (value.is_bool()) return {value.boolean() ? "True" : "False", Origin::frame};
  if (value.is_integer()) return {std::to_string(value.integer()), Origin::frame};
  if (value.is_real()) return {real_repr(value.real()), Origin::frame};
  if (value.object()) return {"<" + value.type_name() + ">", Origin::frame};
  return to_repr(value, budget);
}

Text to_repr(const Value& value, Budget& budget) { return Writer(budget).run(value); }

}  // namespace patchbay::jinja
