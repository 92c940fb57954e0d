// Filters of strings: `text | NAME`. What is no string is made one first, as str() does.
#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/operators.h"
#include "jinja/space.h"
#include "jinja/tables.h"
#include "jinja/text_tools.h"

namespace patchbay::jinja {
namespace {

Value trim(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"chars"});
  return stripped(self.text_of(value), bound.is_set(0) ? &bound.text(0).bytes() : nullptr, true, true);
}

template <std::string (*kMap)(std::string_view)>
Value map_text(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return rewritten(self.text_of(value), self.budget(), kMap);
}

/// Unlike str.title(): words begin after white space and -({[< alone.
std::string title_words(std::string_view text) {
  std::string result;
  const auto starts_word = [](char32_t c) { return is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos); };
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && !starts_word(first_utf8_unit(text.substr(end)).code_point)) end += first_utf8_unit(text.substr(end)).bytes;
    if (end > 0) {
      const std::size_t first = first_utf8_unit(text).bytes;
      result += upper(text.substr(0, first)) + lower(text.substr(first, end - first));
    } else {
      end = first_utf8_unit(text).bytes;
      result += text.substr(0, end);
    }
    text.remove_prefix(end);
  }
  return result;
}

Value string(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return self.text_of(value);
}

Value replace(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"old", "new", "count"}, 2);
  return replaced(self.text_of(value), self.text_of(bound[0]), self.text_of(bound[1]), bound.is_set(2) ? bound.integer(2) : -1, self.budget());
}

Value indent(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"width", "first", "blank"});
  const Value width = bound.value_or(0, Value(std::int64_t{4}));
  const Text by = width.is_text() ? width.text() : binary("*", Value::text(" "), width, self.budget()).text();
  require_defined(value);
  if (!value.is_text()) fail("indent takes a string, not a " + value.type_name(), "", "'| string' makes a string of it");
  Text text = value.text();
  text.append("\n", Origin::frame);
  Text result;
  std::size_t number = 0;
  for (const Text& line : split_lines(text, false)) {
    if (number > 0) result.append("\n", Origin::frame);
    if ((number > 0 || bound.truth_or(1, false)) && (!line.empty() || bound.truth_or(2, false) || number == 0)) result.append(by);
    result.append(line);
    ++number;
    self.budget().charge(16 + line.size() + by.size());
    self.budget().check_size(result.size());
  }
  return result;
}

Value escape(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  static constexpr std::string_view kCharacters = "&<>\"'", kNames[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  const Text text = self.text_of(value);
  Text result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t found = kCharacters.find(text.bytes()[at]);
    result.append(found == std::string_view::npos ? text.view().substr(at, 1) : kNames[found], text.origin_at(at));
  }
  self.budget().charge(result.size() * 4);
  return result;
}

Value format(Interpreter& self, const Value& value, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) fail("format with positional and named values", "one of the two");
  const Text text = self.text_of(value);
  if (arguments.named.empty()) return formatted(text, Value::tuple(self.budget(), std::move(arguments.positional)), self.budget());
  std::vector<std::pair<Value, Value>> entries;
  for (auto& [name, entry] : arguments.named) entries.emplace_back(std::move(name), std::move(entry));
  return formatted(text, Value::dict(self.budget(), std::move(entries)), self.budget());
}

}  // namespace

std::vector<NamedFilter> text_filters() {
  return {{"trim", trim}, {"upper", map_text<upper>}, {"lower", map_text<lower>}, {"capitalize", map_text<capitalized>}, {"title", map_text<title_words>},
          {"string", string}, {"safe", string}, {"replace", replace}, {"indent", indent}, {"escape", escape}, {"e", escape}, {"forceescape", escape}, {"format", format}};
}

}  // namespace patchbay::jinja
