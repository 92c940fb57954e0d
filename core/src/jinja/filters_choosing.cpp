// Filters that take other filters, tests and attributes to the items of a list: map, select, reject, selectattr, rejectattr.
// Jinja does so lazily; here all items are done at once, so an error in an item that nobody asks for is an error, too.
#include "jinja/arguments.h"
#include "jinja/attribute_getter.h"
#include "jinja/tables.h"
#include "jinja/text_tools.h"
#include "jinja/unicode_text.h"

namespace patchbay::jinja {
namespace {

Value take_first(Arguments& arguments, const char* what) {
  if (arguments.positional.empty()) fail(std::string(what) + " is missing");
  Value value = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return value;
}

std::string take_name(Arguments& arguments, const char* what) {
  const Value name = take_first(arguments, what);
  if (!name.is_text()) fail(std::string(what) + " is a " + name.type_name(), "a string");
  return name.text().bytes();
}

Value map(Interpreter& self, const Value& value, Arguments arguments) {
  std::vector<Value> mapped;
  if (!value.truth()) return Value::sequence(self.budget(), Sequence::Kind::generator, {});
  if (arguments.positional.empty() && !arguments.named.empty()) {
    const Bound bound(std::move(arguments), {"attribute", "default"}, 1);
    const AttributeGetter get(self, bound[0], false, bound.is_set(1) ? std::optional(bound[1]) : std::nullopt);
    for (const Value& item : items_of(value, self.budget())) mapped.push_back(get(item));
  } else {
    const std::string name = take_name(arguments, "the name of a filter");
    for (const Value& item : items_of(value, self.budget())) mapped.push_back(self.filter(name, item, arguments));
  }
  return Value::sequence(self.budget(), Sequence::Kind::generator, std::move(mapped));
}

/// kByAttribute: the test sees an attribute of the item; kWanted: which answer keeps an item.
template <bool kByAttribute, bool kWanted>
Value choose(Interpreter& self, const Value& value, Arguments arguments) {
  std::vector<Value> chosen;
  if (!value.truth()) return Value::sequence(self.budget(), Sequence::Kind::generator, {});
  const AttributeGetter get(self, kByAttribute ? take_first(arguments, "the name of an attribute") : Value());
  const std::string test = arguments.positional.empty() ? "" : take_name(arguments, "the name of a test");
  for (Value& item : items_of(value, self.budget())) {
    const Value seen = get(item);
    const bool holds = test.empty() ? seen.truth() : self.test(test, seen, arguments);
    if (holds == kWanted) chosen.push_back(std::move(item));
  }
  return Value::sequence(self.budget(), Sequence::Kind::generator, std::move(chosen));
}

}  // namespace

AttributeGetter::AttributeGetter(Interpreter& interpreter, const Value& attribute, bool ignore_case, std::optional<Value> otherwise)
    : interpreter_(interpreter), ignore_case_(ignore_case), otherwise_(std::move(otherwise)) {
  if (attribute.is_none()) return;
  if (!attribute.is_text()) {
    keys_.push_back(attribute);
    return;
  }
  for (const Text& part : split(attribute.text(), ".", -1, false)) {
    const bool number = !part.empty() && part.size() < 10 && part.bytes().find_first_not_of("0123456789") == std::string::npos;
    keys_.push_back(number ? Value(std::int64_t{std::stol(part.bytes())}) : Value(part));
  }
}

Value AttributeGetter::operator()(const Value& item) const {
  Value value = item;
  for (const Value& key : keys_) {
    value = interpreter_.item(value, key);
    if (value.is_undefined() && otherwise_) value = *otherwise_;
  }
  return ignore_case_ && value.is_text() ? Value(rewritten(value.text(), interpreter_.budget(), lower)) : value;
}

std::vector<NamedFilter> choosing_filters() {
  return {{"map", map}, {"select", choose<false, true>}, {"reject", choose<false, false>}, {"selectattr", choose<true, true>}, {"rejectattr", choose<true, false>}};
}

}  // namespace patchbay::jinja
