// Filters of lists and of all else that has items.
#include <algorithm>
#include <functional>

#include "jinja/arguments.h"
#include "jinja/attribute_getter.h"
#include "jinja/operators.h"
#include "jinja/tables.h"
#include "jinja/text_tools.h"
#include "jinja/unicode_text.h"

namespace patchbay::jinja {
namespace {

constexpr auto kGenerator = Sequence::Kind::generator;

Value length(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  if (value.is_text()) {
    self.budget().charge(value.text().size());
    return static_cast<std::int64_t>(character_count(value.text().view()));
  }
  if (value.is_undefined()) return std::int64_t{0};
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  if (const Sequence* sequence = value.sequence(); sequence && sequence->kind != kGenerator) return static_cast<std::int64_t>(sequence->items.size());
  if (value.object()) {
    if (const auto count = value.object()->attribute(self, "length"); count && value.type_name() == "LoopContext") return *count;
  }
  fail("a " + value.type_name() + " has no length", "a string, a list or a dict", value.sequence() ? "'| list' makes a list of it" : "");
}

Value first(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  std::vector<Value> items = items_of(value, self.budget());
  return items.empty() ? Value::undefined("there is no first item") : std::move(items.front());
}

Value last(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  if (value.sequence() && value.sequence()->kind == kGenerator) fail("a generator has no last item yet", "a list", "'| list' makes one of it");
  std::vector<Value> items = items_of(value, self.budget());
  return items.empty() ? Value::undefined("there is no last item") : std::move(items.back());
}

Value list(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return Value::list(self.budget(), items_of(value, self.budget()));
}

Value join(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"d", "attribute"});
  const AttributeGetter get(self, bound.value_or(1, Value()));
  const Text separator = self.text_of(bound.value_or(0, Value::text("")));
  Text joined;
  bool at_start = true;
  for (const Value& item : items_of(value, self.budget())) {
    if (!std::exchange(at_start, false)) joined.append(separator);
    joined.append(self.text_of(get(item)));
    self.budget().charge(separator.size() + 16);
    self.budget().check_size(joined.size());
  }
  return joined;
}

Value reverse(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  if (value.is_text()) return self.slice(value, Value(), Value(), Value(std::int64_t{-1}));
  std::vector<Value> items = items_of(value, self.budget());
  std::ranges::reverse(items);
  return Value::sequence(self.budget(), kGenerator, std::move(items));
}

struct Keyed { Value key, item; };

std::vector<Keyed> keyed(Interpreter& self, const Value& value, const std::function<Value(const Value&)>& key) {
  std::vector<Keyed> result;
  for (Value& item : items_of(value, self.budget())) {
    self.budget().charge(sizeof(Keyed));
    Value of = key(item);
    result.push_back({std::move(of), std::move(item)});
  }
  return result;
}

/// Stable, also when it goes down. Every pair that Python would compare may have no order: that is an error.
std::vector<Value> sorted(Interpreter& self, std::vector<Keyed> items, bool down) {
  const auto before = [&](const Keyed& a, const Keyed& b) { return order(a.key, b.key, self.budget()) < 0; };
  if (down) {
    std::ranges::stable_sort(items, [&](const Keyed& a, const Keyed& b) { return before(b, a); });
  } else {
    std::ranges::stable_sort(items, before);
  }
  std::vector<Value> result;
  for (Keyed& item : items) result.push_back(std::move(item.item));
  return result;
}

Value sort(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"reverse", "case_sensitive", "attribute"});
  const bool ignores_case = !bound.truth_or(1, false);
  std::vector<AttributeGetter> keys;
  if (bound.is_set(2) && bound[2].is_text()) {
    for (const Text& name : split(bound[2].text(), ",", -1, false)) keys.emplace_back(self, Value(name), ignores_case);
  } else {
    keys.emplace_back(self, bound.value_or(2, Value()), ignores_case);
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const AttributeGetter& get : keys) parts.push_back(get(item));
    return Value::list(self.budget(), std::move(parts));
  };
  return Value::list(self.budget(), sorted(self, keyed(self, value, key), bound.truth_or(0, false)));
}

Value dictsort(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"case_sensitive", "by", "reverse"});
  const std::string by = bound.given(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") fail("dictsort by '" + by.substr(0, 40) + "'", "key, value");
  require_defined(value);
  if (!value.dict()) fail("dictsort of a " + value.type_name(), "a dict");
  const AttributeGetter get(self, Value(std::int64_t{by == "value"}), !bound.truth_or(0, false));
  std::vector<Value> pairs;
  for (const auto& [key, entry] : value.dict()->entries) pairs.push_back(Value::tuple(self.budget(), {key, entry}));
  return Value::list(self.budget(), sorted(self, keyed(self, Value::list(self.budget(), std::move(pairs)), get), bound.truth_or(2, false)));
}

Value unique(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"case_sensitive", "attribute"});
  const AttributeGetter get(self, bound.value_or(1, Value()), !bound.truth_or(0, false));
  std::vector<Value> kept, keys;
  for (Keyed& item : keyed(self, value, get)) {
    Value::dict(self.budget(), {{item.key, Value()}});  // refuses what Python cannot hash
    if (std::ranges::any_of(keys, [&](const Value& key) { return key.same_as(item.key) || equal(key, item.key, self.budget()); })) continue;
    keys.push_back(std::move(item.key));
    kept.push_back(std::move(item.item));
  }
  return Value::sequence(self.budget(), kGenerator, std::move(kept));
}

template <bool kMax>
Value extreme(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"case_sensitive", "attribute"});
  const AttributeGetter get(self, bound.value_or(1, Value()), !bound.truth_or(0, false));
  std::vector<Keyed> items = keyed(self, value, get);
  if (items.empty()) return Value::undefined("there is no smallest or largest item of nothing");
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const auto found = order(items[i].key, items[best].key, self.budget(), kMax ? ">" : "<");
    if (kMax ? found > 0 : found < 0) best = i;
  }
  return items[best].item;
}

Value sum(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"attribute", "start"});
  const AttributeGetter get(self, bound.value_or(0, Value()));
  Value total = bound.value_or(1, Value(std::int64_t{0}));
  if (total.is_text()) fail("sum of strings", "numbers", "join puts strings together");
  for (const Value& item : items_of(value, self.budget())) total = binary("+", total, get(item), self.budget());
  return total;
}

std::vector<Value> filled(std::vector<Value> row, std::size_t width, const Bound& bound) {
  if (bound.is_set(1)) row.resize(std::max(width, row.size()), bound[1]);
  return row;
}

Value batch(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"linecount", "fill_with"}, 1);
  const std::int64_t width = bound.integer(0);
  if (width < 1 || width > 100'000) fail("batch of " + std::to_string(width), "1 to 100000");
  std::vector<Value> rows, row;
  for (Value& item : items_of(value, self.budget())) {
    if (static_cast<std::int64_t>(row.size()) == width) rows.push_back(Value::list(self.budget(), std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) rows.push_back(Value::list(self.budget(), filled(std::move(row), static_cast<std::size_t>(width), bound)));
  return Value::sequence(self.budget(), kGenerator, std::move(rows));
}

Value slice(Interpreter& self, const Value& value, Arguments arguments) {
  const Bound bound(std::move(arguments), {"slices", "fill_with"}, 1);
  const std::int64_t count = bound.integer(0);
  if (count < 1 || count > 100'000) fail("slice into " + std::to_string(count), "1 to 100000");
  const std::vector<Value> items = items_of(value, self.budget());
  const std::size_t slices = static_cast<std::size_t>(count), each = items.size() / slices, longer = items.size() % slices;
  std::vector<Value> columns;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin), items.begin() + static_cast<std::ptrdiff_t>(end));
    columns.push_back(Value::list(self.budget(), i < longer ? std::move(column) : filled(std::move(column), each + 1, bound)));
    begin = end;
  }
  return Value::sequence(self.budget(), kGenerator, std::move(columns));
}

}  // namespace

std::vector<NamedFilter> list_filters() {
  return {{"length", length}, {"count", length}, {"first", first}, {"last", last}, {"list", list}, {"join", join}, {"reverse", reverse}, {"sort", sort},
          {"dictsort", dictsort}, {"unique", unique}, {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum}, {"batch", batch}, {"slice", slice}};
}

}  // namespace patchbay::jinja
