// One value of Settings read as a number, a boolean or text, by YAML 1.2's core schema and a little stricter.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "config.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

constexpr std::int64_t kExactIntegers = std::int64_t{1} << 53;  // a double holds every integer up to this

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

/// Base and digits of an integer of the core schema, or nothing: [-+]?[0-9]+, 0o[0-7]+, 0x[0-9a-fA-F]+.
struct IntegerText {
  int base = 10;
  bool negative = false;
  std::string_view digits;
};
std::optional<IntegerText> integer_text(std::string_view text) {
  IntegerText parts;
  if (text.starts_with("0x") || text.starts_with("0o")) {
    parts.base = text[1] == 'x' ? 16 : 8;
    parts.digits = text.substr(2);
  } else {
    parts.negative = text.starts_with('-');
    parts.digits = without_sign(text);
  }
  const auto fits = [&](char c) {
    if (parts.base == 8) return c >= '0' && c <= '7';
    return is_digit(c) || (parts.base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
  };
  if (parts.digits.empty() || !std::all_of(parts.digits.begin(), parts.digits.end(), fits)) return std::nullopt;
  return parts;
}

bool is_infinite(std::string_view text) { return one_of(without_sign(text), {".inf", ".Inf", ".INF"}); }
bool is_nan(std::string_view text) { return one_of(text, {".nan", ".NaN", ".NAN"}); }

/// [-+]? (digits (. digits?)? | . digits) ([eE] [-+]? digits)?
bool is_decimal(std::string_view text) {
  text = without_sign(text);
  const auto skip_digits = [&] {
    const std::size_t before = text.size();
    while (!text.empty() && is_digit(text[0])) text.remove_prefix(1);
    return before - text.size();
  };
  std::size_t digits = skip_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits += skip_digits();
  }
  if (digits == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text = without_sign(text.substr(1));
  return skip_digits() > 0 && text.empty();
}

/// The text of a scalar that must be there and must be one.
const std::string& scalar_text(const Settings& value, const char* expected) {
  switch (scalar_type(value) == ScalarType::null ? Settings::Kind::null : value.kind) {
    case Settings::Kind::null:
      throw Error(value.where, "missing value", expected);
    case Settings::Kind::list:
      throw Error(value.where, "a list where one value is expected", expected);
    case Settings::Kind::map:
      throw Error(value.where, "a map where one value is expected", expected);
    case Settings::Kind::scalar:
      break;
  }
  return value.text;
}

[[noreturn]] void fail_quoted(const Settings& value, const char* expected) {
  throw Error(value.where, "\"" + printable(value.text) + "\" is text in quotes", expected, "write it without quotes");
}

}  // namespace

ScalarType scalar_type(const Settings& scalar) {
  if (scalar.kind == Settings::Kind::null) return ScalarType::null;
  const std::string& text = scalar.text;
  if (scalar.quoted) return ScalarType::text;
  if (scalar.kind == Settings::Kind::scalar && one_of(text, {"", "~", "null", "Null", "NULL"})) return ScalarType::null;
  if (one_of(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) return ScalarType::boolean;
  if (integer_text(text)) return ScalarType::integer;
  if (is_decimal(text) || is_infinite(text) || is_nan(text)) return ScalarType::real;
  return ScalarType::text;
}

std::int64_t read_integer(const Settings& value, std::int64_t low, std::int64_t high, std::string allowed) {
  const std::string& text = scalar_text(value, "an integer");
  if (value.quoted) fail_quoted(value, "an integer");
  const std::string range = allowed.empty() ? range_text(low, high) : std::move(allowed);
  const auto parts = integer_text(text);
  if (!parts) throw Error(value.where, printable(text) + " is not an integer", range);
  std::uint64_t magnitude = 0;
  const char* end = parts->digits.data() + parts->digits.size();
  const bool overflow = std::from_chars(parts->digits.data(), end, magnitude, parts->base).ec != std::errc();
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const bool wide = overflow || magnitude > kLargest;
  const std::int64_t number = wide ? 0 : (parts->negative ? -1 : 1) * static_cast<std::int64_t>(magnitude);
  if (wide || number < low || number > high) throw Error(value.where, printable(text) + " is out of range", range);
  return number;
}

double read_real(const Settings& value, double low, double high) {
  std::string_view text = scalar_text(value, "a number");
  if (value.quoted) fail_quoted(value, "a number");
  const std::string range = range_text(low, high);
  if (is_infinite(text) || is_nan(text)) throw Error(value.where, std::string(text) + " is not finite", range);
  if (!is_decimal(text)) {
    if (integer_text(text)) {  // hexadecimal or octal
      const std::int64_t whole = read_integer(value, -kExactIntegers, kExactIntegers);
      if (whole < low || whole > high) throw Error(value.where, printable(text) + " is out of range", range);
      return static_cast<double>(whole);
    }
    throw Error(value.where, printable(text) + " is not a number", range);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const bool overflow = std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc();
  if (overflow || number < low || number > high) throw Error(value.where, printable(text) + " is out of range", range);
  return number;
}

bool read_boolean(const Settings& value) {
  const std::string& text = scalar_text(value, "true, false");
  if (value.quoted) fail_quoted(value, "true, false");
  if (text != "true" && text != "false") throw Error(value.where, printable(text) + " is not a boolean", "true, false");
  return text == "true";
}

std::string read_text(const Settings& value) {
  const std::string& text = scalar_text(value, "text");
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  if (!value.quoted && one_of(lower, {"yes", "no", "on", "off", "true", "false"})) {
    throw Error(value.where, text + " could be a boolean where text is expected", "", "put it in quotes if this text is meant");
  }
  return text;
}

std::string read_choice(const Settings& value, std::span<const std::string> allowed) {
  std::string list;
  for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
  const std::string& text = scalar_text(value, list.c_str());
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return text;
  const std::string near = suggestion(text, allowed);
  throw Error(value.where, "unknown value " + printable(text), list, near.empty() ? "" : "did you mean " + near + "?");
}

std::string range_text(std::int64_t low, std::int64_t high) {
  const bool open_below = low == std::numeric_limits<std::int64_t>::min(),
             open_above = high == std::numeric_limits<std::int64_t>::max();
  if (open_below && open_above) return "any integer";
  if (open_above) return "an integer of at least " + std::to_string(low);
  if (open_below) return "an integer of at most " + std::to_string(high);
  return std::to_string(low) + " to " + std::to_string(high);
}

std::string range_text(double low, double high) {
  constexpr double kOpen = 1e30;  // plugins write a large bound where they mean none
  const auto number = [](double bound) {
    std::string text = real_text(bound);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  if (low <= -kOpen && high >= kOpen) return "any number";
  if (high >= kOpen) return "a number of at least " + number(low);
  if (low <= -kOpen) return "a number of at most " + number(high);
  return number(low) + " to " + number(high);
}

std::string real_text(double value) {
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string result;
  for (const char c : text.substr(0, kLongest)) {
    constexpr char kHex[] = "0123456789abcdef";
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F)
      result += c;
    else
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  // A cut may fall inside a character: drop its bytes.
  if (text.size() > kLongest) {
    while (!result.empty() && (static_cast<unsigned char>(result.back()) & 0xC0) == 0x80) result.pop_back();
    if (!result.empty() && static_cast<unsigned char>(result.back()) >= 0xC0) result.pop_back();
    result += "...";
  }
  return result;
}

}  // namespace patchbay
