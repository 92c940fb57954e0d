// Filters of single values, and the table of all filters.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "jinja/arguments.h"
#include "jinja/json.h"
#include "jinja/operators.h"
#include "jinja/tables.h"
#include "jinja/text_tools.h"
#include "jinja/unicode_text.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

Value default_value(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (bound.truth_or(1, false) && !value.truth());
  return missing ? bound.value_or(0, Value::text("")) : value;
}

/// Digits as Python's int() and float() read them: of any script, white space around (but for ASCII's separators), underscores between.
std::optional<std::string> plain_number(const Text& text) {
  std::string number;
  for (std::string_view rest = text.view(); !rest.empty(); rest.remove_prefix(first_utf8_unit(rest).bytes)) {
    const Utf8Unit unit = first_utf8_unit(rest);
    if (unit.code_point >= 0x80 && is_space(unit.code_point)) {
      number += ' ';
    } else if (is_decimal(unit.code_point)) {
      number += static_cast<char>('0' + decimal_value(unit.code_point));
    } else {
      number += rest.substr(0, unit.bytes);
    }
  }
  static constexpr const char* kSpaces = " \t\n\v\f\r";
  number.erase(0, std::min(number.find_first_not_of(kSpaces), number.size()));
  number.erase(number.find_last_not_of(kSpaces) + 1);
  for (std::size_t i = 0; i < number.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < number.size() && std::isalnum(static_cast<unsigned char>(number[at])) != 0; };
    if (number[i] == '_' && (i == 0 || !digit(i - 1) || !digit(i + 1))) return std::nullopt;
  }
  std::erase(number, '_');
  if (number.starts_with('+') && number.size() > 1 && number[1] != '-' && number[1] != '+') number.erase(0, 1);
  return number;
}

std::optional<double> parse_real(const Text& text) {
  const std::optional<std::string> number = plain_number(text);
  if (!number || number->empty() || number->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number->c_str(), &end);  // reads inf and nan, too, and takes what is too large for inf, as Python does
  return end == number->c_str() + number->size() ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> parse_integer(const Text& text, std::int64_t base) {
  std::optional<std::string> number = plain_number(text);
  if (!number) return std::nullopt;
  const bool minus = number->starts_with('-');
  if (minus) number->erase(0, 1);
  const std::string prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && number->size() > 2 && (*number)[0] == '0' && std::tolower((*number)[1]) == prefix[1]) number->erase(0, 2);
  if (number->empty() || number->front() == '-') return std::nullopt;
  if (minus) number->insert(0, 1, '-');
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(number->data(), number->data() + number->size(), value, static_cast<int>(base));
  if (end != number->data() + number->size()) return std::nullopt;
  if (code == std::errc::result_out_of_range) fail("int of a number that does not fit 64 bits");
  return code == std::errc() ? std::optional(value) : std::nullopt;
}

std::int64_t truncated(double value) {
  if (!(value > -0x1p63 && value < 0x1p63)) fail("int of a number that does not fit 64 bits");
  return static_cast<std::int64_t>(value);
}

Value to_integer(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"default", "base"});
  const std::int64_t base = bound.integer_or(1, 10);
  if (base != 2 && base != 8 && base != 10 && base != 16) fail("int with base " + std::to_string(base), "2, 8, 10, 16");
  require_defined(value);
  std::optional<double> real;
  if (value.is_text()) {
    if (const auto integer = parse_integer(value.text(), base)) return *integer;
    real = parse_real(value.text());
    if (real && std::isinf(*real)) real.reset();
  } else if (value.is_number()) {
    if (!value.is_real()) return value.integer();
    real = value.real();
  }
  return real && !std::isnan(*real) ? Value(truncated(*real)) : bound.value_or(0, Value(std::int64_t{0}));
}

Value to_real(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"default"});
  require_defined(value);
  std::optional<double> real;
  if (value.is_text()) real = parse_real(value.text());
  if (value.is_number()) real = value.real();
  return real ? Value(*real) : bound.value_or(0, Value(0.0));
}

Value absolute(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  require_defined(value);
  if (!value.is_number()) fail("abs of a " + value.type_name(), "a number");
  if (value.is_real()) return std::fabs(value.real());
  return value.integer() < 0 ? negated(value) : Value(value.integer());
}

/// To so many decimals; a half goes to the even neighbour, as the double's exact value says.
double rounded(double value, std::int64_t precision) {
  if (precision > 308 || !std::isfinite(value)) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char digits[1024];
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value);
  return std::strtod(digits, nullptr);
}

Value round_number(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"precision", "method"});
  const std::int64_t precision = bound.integer_or(0, 0);
  const std::string method = bound.given(1) ? bound.text(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") fail("round with another method", "common, ceil, floor");
  require_defined(value);
  if (!value.is_number()) fail("round of a " + value.type_name(), "a number");
  if (method == "common") {
    if (value.is_real()) return rounded(value.real(), precision);
    return precision >= 0 ? Value(value.integer()) : Value(truncated(rounded(value.real(), precision)));
  }
  const Value power = binary("**", Value(std::int64_t{10}), Value(precision), self.budget());
  const double scaled = binary("*", value, power, self.budget()).real();
  return binary("/", Value(truncated(method == "ceil" ? std::ceil(scaled) : std::floor(scaled))), power, self.budget());
}

Value tojson(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.truth_or(0, false);
  style.lines = bound.is_set(1);
  style.sorted = bound.truth_or(3, false);
  if (style.lines) style.indent = bound[1].is_text() ? bound[1].text() : binary("*", Value::text(" "), Value(bound.integer(1)), self.budget()).text();
  style.comma = Text(style.lines ? "," : ", ", Origin::frame);
  style.colon = Text(": ", Origin::frame);
  if (bound.is_set(2)) {
    const std::vector<Value> both = items_of(bound[2], self.budget());
    if (both.size() != 2 || !both[0].is_text() || !both[1].is_text()) fail("tojson with other separators", "two strings: (\",\", \":\")");
    style.comma = both[0].text();
    style.colon = both[1].text();
  }
  return to_json(value, style, self.budget());
}

Value items(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  if (value.is_undefined()) return Value::sequence(self.budget(), Sequence::Kind::generator, {});
  if (!value.dict()) fail("items of a " + value.type_name(), "a dict");
  const Value view = find_method(value, "items")(self, value, {});
  return Value::sequence(self.budget(), Sequence::Kind::generator, items_of(view, self.budget()));
}

Value attr(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"name"}, 1);
  const std::string& name = bound.text(0).bytes();
  if (value.dict() && !find_method(value, name)) return Value::undefined("'dict object' has no attribute '" + name.substr(0, 40) + "'");
  return self.attribute(value, name);
}

std::vector<NamedFilter> all_filters() {
  std::vector<NamedFilter> all = {{"default", default_value}, {"d", default_value}, {"int", to_integer}, {"float", to_real}, {"abs", absolute},
                                  {"round", round_number}, {"tojson", tojson}, {"items", items}, {"attr", attr}};
  for (const auto& part : {text_filters(), list_filters(), choosing_filters()}) all.insert(all.end(), part.begin(), part.end());
  std::ranges::sort(all, {}, &NamedFilter::name);
  return all;
}

const std::vector<NamedFilter>& filters() {
  static const std::vector<NamedFilter> kFilters = all_filters();
  return kFilters;
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  const auto found = std::ranges::lower_bound(filters(), name, {}, &NamedFilter::name);
  return found == filters().end() || found->name != name ? nullptr : found->function;
}

std::string filter_names() {
  std::string names;
  for (const NamedFilter& filter : filters()) names += (names.empty() ? "" : ", ") + std::string(filter.name);
  return names;
}

}  // namespace patchbay::jinja
