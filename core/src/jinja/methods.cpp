// Methods of strings, lists and dicts.
#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/tables.h"
#include "jinja/text_tools.h"
#include "jinja/unicode_text.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

using Names = std::string_view;

const Text& text_of(const Value& value, const char* what) {
  require_defined(value);
  if (!value.is_text()) fail(std::string(what) + " is a " + value.type_name(), "a string");
  return value.text();
}

template <bool kLeft, bool kRight>
Value strip(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"chars"});
  self.budget().charge(value.text().size());
  return stripped(value.text(), bound.is_set(0) ? &bound.text(0).bytes() : nullptr, kLeft, kRight);
}

template <bool kFromRight>
Value split_method(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"sep", "maxsplit"});
  const std::int64_t limit = bound.integer_or(1, -1);
  self.budget().charge(value.text().size() * 2);
  if (!bound.is_set(0)) return list_of(split_at_spaces(value.text(), limit, kFromRight), self.budget());
  if (bound.text(0).empty()) fail("split() with an empty separator");
  self.budget().charge(value.text().size() * sizeof(Text) / bound.text(0).size());
  return list_of(split(value.text(), bound.text(0).view(), limit, kFromRight), self.budget());
}

Value splitlines(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"keepends"});
  self.budget().charge(value.text().size() * 2);
  return list_of(split_lines(value.text(), bound.truth_or(0, false)), self.budget());
}

template <bool kFirst>
Value partition(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"sep"}, 1);
  const Text &text = value.text(), &separator = bound.text(0);
  if (separator.empty()) fail("partition() with an empty separator");
  self.budget().charge(text.size() * 2);
  const std::size_t at = kFirst ? text.view().find(separator.view()) : text.view().rfind(separator.view());
  if (at == std::string_view::npos) return Value::tuple(self.budget(), {kFirst ? value : Value::text(""), Value::text(""), kFirst ? Value::text("") : value});
  return Value::tuple(self.budget(), {text.slice(0, at), text.slice(at, at + separator.size()), text.slice(at + separator.size(), text.size())});
}

/// With one string or any of a tuple.
template <bool kAtStart>
Value starts_or_ends(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"prefix"}, 1);
  const std::string_view text = value.text().view();
  const auto fits = [&](const Value& part) {
    const std::string_view wanted = text_of(part, "what a string is asked to begin or end with").view();
    return kAtStart ? text.starts_with(wanted) : text.ends_with(wanted);
  };
  const Sequence* tuple = bound[0].sequence();
  if (tuple != nullptr && tuple->kind == Sequence::Kind::tuple) return Value(std::ranges::any_of(tuple->items, fits));
  return Value(fits(bound[0]));
}

template <bool kAtStart>
Value remove_affix(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"affix"}, 1);
  const Text &text = value.text(), &affix = bound.text(0);
  self.budget().charge(text.size());
  if (!(kAtStart ? text.view().starts_with(affix.view()) : text.view().ends_with(affix.view()))) return value;
  return kAtStart ? text.slice(affix.size(), text.size()) : text.slice(0, text.size() - affix.size());
}

Value replace(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"old", "new", "count"}, 2);
  return replaced(value.text(), bound.text(0), bound.text(1), bound.integer_or(2, -1), self.budget());
}

template <bool kFirst, bool kMustBe>
Value find_method_of_text(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"sub"}, 1);
  const std::string_view text = value.text().view(), wanted = bound.text(0).view();
  self.budget().charge(text.size());
  const std::size_t at = kFirst ? text.find(wanted) : text.rfind(wanted);
  if (at != std::string_view::npos) return static_cast<std::int64_t>(character_count(text.substr(0, at)));
  if (kMustBe) fail("index() of a text that is not there", "", "find() gives -1");
  return std::int64_t{-1};
}

Value count_in_text(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"sub"}, 1);
  const std::string_view text = value.text().view(), wanted = bound.text(0).view();
  self.budget().charge(text.size());
  if (wanted.empty()) return static_cast<std::int64_t>(character_count(text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) ++count;
  return count;
}

Value join(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"iterable"}, 1);
  Text joined;
  bool first = true;
  for (const Value& item : items_of(bound[0], self.budget())) {
    if (!std::exchange(first, false)) joined.append(value.text());
    joined.append(text_of(item, "an item to join"));
    self.budget().charge(joined.size() / 16 + 16);
    self.budget().check_size(joined.size());
  }
  return joined;
}

Value format(Interpreter& self, const Value& value, Arguments arguments) { return format_braces(value.text(), arguments, self.budget()); }

template <std::string (*kMap)(std::string_view)>
Value map_text(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return rewritten(value.text(), self.budget(), kMap);
}

template <bool (*kIs)(char32_t)>
bool all_are(std::string_view text) {
  if (text.empty()) return false;
  for (; !text.empty(); text.remove_prefix(first_utf8_unit(text).bytes)) {
    if (!kIs(first_utf8_unit(text).code_point)) return false;
  }
  return true;
}
bool is_letter_or_number(char32_t c) { return is_alphabetic(c) || is_numeric(c); }

template <bool (*kIs)(char32_t)>
Value is_all(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  self.budget().charge(value.text().size());
  return Value(all_are<kIs>(value.text().view()));
}

template <bool kUpper>
Value is_case(Interpreter& self, const Value& value, Arguments arguments) { return Value(self.test(kUpper ? "upper" : "lower", value, std::move(arguments))); }

Value get(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"key", "default"}, 1);
  const Value* found = find(*value.dict(), bound[0], self.budget());
  return found ? *found : bound.value_or(1, Value());
}

template <Sequence::Kind kKind>
Value view_of_dict(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  std::vector<Value> items;
  for (const auto& [key, entry] : value.dict()->entries) {
    items.push_back(kKind == Sequence::Kind::dict_keys ? key : kKind == Sequence::Kind::dict_values ? entry : Value::tuple(self.budget(), {key, entry}));
  }
  return Value::sequence(self.budget(), kKind, std::move(items));
}

Value copy(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return value;  // what nobody can change need not be copied
}

Value index_in_list(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"value"}, 1);
  const auto& items = value.sequence()->items;
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return equal(item, bound[0], self.budget()); });
  if (found == items.end()) fail("index() of a value that is not in the list", "", "test it first: 'in'");
  return std::int64_t{found - items.begin()};
}

Value count_in_list(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"value"}, 1);
  return std::int64_t{std::ranges::count_if(value.sequence()->items, [&](const Value& item) { return equal(item, bound[0], self.budget()); })};
}

constexpr NamedFilter kTextMethods[] = {
    {"strip", strip<true, true>}, {"lstrip", strip<true, false>}, {"rstrip", strip<false, true>},
    {"split", split_method<false>}, {"rsplit", split_method<true>}, {"splitlines", splitlines},
    {"partition", partition<true>}, {"rpartition", partition<false>}, {"startswith", starts_or_ends<true>}, {"endswith", starts_or_ends<false>},
    {"removeprefix", remove_affix<true>}, {"removesuffix", remove_affix<false>}, {"replace", replace}, {"join", join}, {"format", format},
    {"find", find_method_of_text<true, false>}, {"rfind", find_method_of_text<false, false>}, {"index", find_method_of_text<true, true>},
    {"rindex", find_method_of_text<false, true>}, {"count", count_in_text},
    {"upper", map_text<upper>}, {"lower", map_text<lower>}, {"capitalize", map_text<capitalized>}, {"title", map_text<titled>},
    {"isalpha", is_all<is_alphabetic>}, {"isalnum", is_all<is_letter_or_number>}, {"isdigit", is_all<is_digit>}, {"isdecimal", is_all<is_decimal>},
    {"isnumeric", is_all<is_numeric>}, {"isspace", is_all<is_space>}, {"isupper", is_case<true>}, {"islower", is_case<false>}};
constexpr NamedFilter kDictMethods[] = {{"get", get}, {"copy", copy}, {"items", view_of_dict<Sequence::Kind::dict_items>},
                                        {"keys", view_of_dict<Sequence::Kind::dict_keys>}, {"values", view_of_dict<Sequence::Kind::dict_values>}};
constexpr NamedFilter kListMethods[] = {{"index", index_in_list}, {"count", count_in_list}, {"copy", copy}};

template <class Table>
FilterFunction find_in(const Table& table, Names name) {
  const auto found = std::ranges::find(table, name, &NamedFilter::name);
  return found == std::end(table) ? nullptr : found->function;
}

}  // namespace

FilterFunction find_method(const Value& value, std::string_view name) {
  if (value.is_text()) return find_in(kTextMethods, name);
  if (value.dict()) return find_in(kDictMethods, name);
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->kind > Sequence::Kind::range || (name == "copy" && sequence->kind != Sequence::Kind::list)) return nullptr;
  return find_in(kListMethods, name);
}

bool changes_value(const Value& value, std::string_view name) {
  static constexpr Names kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr Names kOfLists[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  if (value.dict()) return std::ranges::find(kOfDicts, name) != std::end(kOfDicts);
  return value.sequence() && value.sequence()->kind == Sequence::Kind::list && std::ranges::find(kOfLists, name) != std::end(kOfLists);
}

}  // namespace patchbay::jinja
