// The tests: `value is NAME`.
#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/operators.h"
#include "jinja/tables.h"
#include "jinja/unicode_text.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

template <class Ask>
bool without_arguments(Arguments arguments, Ask ask) {
  const Bound bound(std::move(arguments), {});
  return ask();
}

Value only_argument(Arguments arguments) {
  const Bound bound(std::move(arguments), {"other"}, 1);
  return bound[0];
}

bool leaves(Interpreter& interpreter, const Value& value, const Value& divisor, std::int64_t remainder) {
  return equal(binary("%", value, divisor, interpreter.budget()), Value(remainder), interpreter.budget());
}

bool contains(Interpreter& interpreter, const Value& value, const Value& list) {
  Budget& budget = interpreter.budget();
  if (const Dict* dict = list.dict()) return find(*dict, value, budget) != nullptr;
  if (!list.is_text()) {
    const std::vector<Value> items = items_of(list, budget);
    return std::ranges::any_of(items, [&](const Value& item) { return item.same_as(value) || equal(item, value, budget); });
  }
  require_defined(value);
  if (!value.is_text()) fail("a " + value.type_name() + " is looked for in a string", "a string");
  budget.charge(list.text().size() + value.text().size());
  return list.text().view().find(value.text().view()) != std::string_view::npos;
}

/// Python's islower() and isupper(): some letters, and all of that case.
bool has_case(std::string_view text, bool upper) {
  bool some = false;
  while (!text.empty()) {
    const Utf8Unit unit = first_utf8_unit(text);
    if ((upper ? is_lower : is_upper)(unit.code_point) || is_title(unit.code_point)) return false;
    some = some || (upper ? is_upper : is_lower)(unit.code_point);
    text.remove_prefix(unit.bytes);
  }
  return some;
}

bool is_sequence(const Value& value) {
  using Kind = Sequence::Kind;
  const Sequence* sequence = value.sequence();
  return value.is_text() || value.dict() || value.is_undefined() || (sequence && (sequence->kind == Kind::list || sequence->kind == Kind::tuple || sequence->kind == Kind::range));
}

// Short forms for the table below: a test of the value alone, and a comparison with one argument.
#define ASK(expression) [](Interpreter& self, const Value& value, Arguments arguments) { (void)self, (void)value; return without_arguments(std::move(arguments), [&] { return bool(expression); }); }
#define COMPARE(expression) [](Interpreter& self, const Value& value, Arguments arguments) { (void)self; const Value other = only_argument(std::move(arguments)); return bool(expression); }

constexpr NamedTest kTests[] = {
    {"defined", ASK(!value.is_undefined())},
    {"undefined", ASK(value.is_undefined())},
    {"none", ASK(value.is_none())},
    {"boolean", ASK(value.is_bool())},
    {"true", ASK(value.is_bool() && value.boolean())},
    {"false", ASK(value.is_bool() && !value.boolean())},
    {"integer", ASK(value.is_integer())},
    {"float", ASK(value.is_real())},
    {"number", ASK(value.is_number())},
    {"string", ASK(value.is_text())},
    {"mapping", ASK(value.dict())},
    {"iterable", ASK(is_iterable(value))},
    {"sequence", ASK(is_sequence(value))},
    {"callable", ASK(value.is_undefined() || (value.object() && value.object()->callable()))},  // Undefined has a __call__, which fails
    {"escaped", ASK(false)},
    {"filter", ASK(value.is_text() && find_filter(value.text().view()))},
    {"test", ASK(value.is_text() && find_test(value.text().view()))},
    {"lower", ASK(has_case(self.text_of(value).view(), false))},
    {"upper", ASK(has_case(self.text_of(value).view(), true))},
    {"odd", ASK(leaves(self, value, Value(std::int64_t{2}), 1))},
    {"even", ASK(leaves(self, value, Value(std::int64_t{2}), 0))},
    {"divisibleby", COMPARE(leaves(self, value, other, 0))},
    {"in", COMPARE(contains(self, value, other))},
    {"sameas", COMPARE(value.same_as(other))},
    {"eq", COMPARE(equal(value, other, self.budget()))},
    {"equalto", COMPARE(equal(value, other, self.budget()))},
    {"==", COMPARE(equal(value, other, self.budget()))},
    {"ne", COMPARE(!equal(value, other, self.budget()))},
    {"!=", COMPARE(!equal(value, other, self.budget()))},
    {"lt", COMPARE(order(value, other, self.budget(), "<") < 0)},
    {"lessthan", COMPARE(order(value, other, self.budget(), "<") < 0)},
    {"<", COMPARE(order(value, other, self.budget(), "<") < 0)},
    {"le", COMPARE(order(value, other, self.budget(), "<=") <= 0)},
    {"<=", COMPARE(order(value, other, self.budget(), "<=") <= 0)},
    {"gt", COMPARE(order(value, other, self.budget(), ">") > 0)},
    {"greaterthan", COMPARE(order(value, other, self.budget(), ">") > 0)},
    {">", COMPARE(order(value, other, self.budget(), ">") > 0)},
    {"ge", COMPARE(order(value, other, self.budget(), ">=") >= 0)},
    {">=", COMPARE(order(value, other, self.budget(), ">=") >= 0)},
};
#undef ASK
#undef COMPARE

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = std::ranges::find(kTests, name, &NamedTest::name);
  return found == std::end(kTests) ? nullptr : found->function;
}

std::string test_names() {
  std::string names;
  for (const NamedTest& test : kTests) names += (names.empty() ? "" : ", ") + std::string(test.name);
  return names;
}

}  // namespace patchbay::jinja
