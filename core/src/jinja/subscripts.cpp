// value.name, value[key] and value[start:stop:step].
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/objects.h"
#include "jinja/tables.h"
#include "utf8.h"

namespace patchbay::jinja {

Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) fail("no attribute '" + escaped(name, 40) + "', since " + value.what_is_undefined(), "", "test it first: 'is defined'");
  if (Object* object = value.object()) {
    if (const auto found = object->attribute(*this, name)) return *found;
  } else if (const FilterFunction method = find_method(value, name)) {
    return Value(make_object<Function>([value, method](Interpreter& self, Arguments arguments) { return method(self, value, std::move(arguments)); }));
  } else if (changes_value(value, name)) {
    return Value::undefined("'" + name + "' would change a " + value.type_name() + ", which templates may not");
  } else if (const Dict* dict = value.dict()) {
    if (const Value* found = find(*dict, Value::text(name), budget_)) return *found;
  }
  return Value::undefined("'" + value.type_name() + " object' has no attribute '" + escaped(name, 40) + "'");
}

namespace {

std::int64_t length_of(const Value& value) {
  return static_cast<std::int64_t>(value.is_text() ? character_count(value.text().view()) : value.sequence()->items.size());
}

bool has_places(const Value& value) {
  using Kind = Sequence::Kind;
  const Sequence* sequence = value.sequence();
  return value.is_text() || (sequence && (sequence->kind == Kind::list || sequence->kind == Kind::tuple || sequence->kind == Kind::range));
}

/// An end of a slice, as Python moves it into the value.
std::int64_t place(const Value& given, std::int64_t otherwise, std::int64_t length, bool backwards) {
  if (given.is_none()) return otherwise;
  std::int64_t at = given.integer();
  if (at < 0) at = std::max(at, -length - 1) + length;
  return std::clamp<std::int64_t>(at, backwards ? -1 : 0, backwards ? length - 1 : length);
}

}  // namespace

Value Interpreter::item(const Value& value, const Value& key) {
  require_defined(value);
  if (const Dict* dict = value.dict(); dict && !key.sequence() && !key.dict()) {
    if (const Value* found = find(*dict, key, budget_)) return *found;
  }
  if (has_places(value) && (key.is_integer() || key.is_bool())) {
    const std::int64_t length = length_of(value), at = key.integer() < 0 ? key.integer() + length : key.integer();
    if (value.is_text()) budget_.charge(value.text().size());
    if (at < 0 || at >= length) return Value::undefined(value.type_name() + " object has no element " + std::to_string(key.integer()));
    if (!value.is_text()) return value.sequence()->items[static_cast<std::size_t>(at)];
    const std::size_t begin = byte_of_character(value.text().view(), static_cast<std::size_t>(at));
    return value.text().slice(begin, begin + first_utf8_unit(value.text().view().substr(begin)).bytes);
  }
  if (key.is_text() && !value.dict()) return attribute(value, key.text().bytes());
  if (key.is_text() && (find_method(value, key.text().bytes()) || changes_value(value, key.text().bytes()))) return attribute(value, key.text().bytes());
  return Value::undefined("'" + value.type_name() + " object' has no element " + escaped(to_repr(key, budget_).view(), 40));
}

Value Interpreter::slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  require_defined(value);
  const auto is_place = [](const Value& v) { return v.is_none() || v.is_integer() || v.is_bool(); };
  if (!has_places(value)) fail("a " + value.type_name() + " cannot be sliced", "a string or a list");
  if (!is_place(start) || !is_place(stop) || !is_place(step)) fail("the ends and the step of a slice are no integers");
  const std::int64_t stride = step.is_none() ? 1 : step.integer(), length = length_of(value);
  if (stride == 0) fail("the step of a slice is zero", "a number other than 0");
  const bool backwards = stride < 0;
  const std::int64_t first = place(start, backwards ? length - 1 : 0, length, backwards), end = place(stop, backwards ? -1 : length, length, backwards);
  if (value.is_text() && stride == 1) {
    budget_.charge(value.text().size());
    const std::size_t begin = byte_of_character(value.text().view(), static_cast<std::size_t>(first));
    return value.text().slice(begin, std::max(begin, byte_of_character(value.text().view(), static_cast<std::size_t>(end))));
  }
  const std::vector<Value> items = items_of(value, budget_);
  std::vector<Value> taken;
  for (std::int64_t at = first; backwards ? at > end : at < end;) {
    taken.push_back(items[static_cast<std::size_t>(at)]);
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  if (!value.is_text()) return Value::sequence(budget_, value.sequence()->kind, std::move(taken));
  Text text;
  for (const Value& character : taken) text.append(character.text());
  return text;
}

}  // namespace patchbay::jinja
