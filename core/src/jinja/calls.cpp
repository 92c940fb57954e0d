#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/objects.h"
#include "jinja/tables.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

/// An argument by name, taken out of the arguments.
std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  std::optional<Value> value;
  std::erase_if(arguments.named, [&](const auto& entry) {
    const bool found = entry.first.bytes() == name;
    if (found) value = entry.second;
    return found;
  });
  return value;
}

}  // namespace

Arguments Interpreter::evaluate_arguments(const CallArguments& given) {
  Arguments arguments;
  for (const ExpressionPtr& argument : given.positional) arguments.positional.push_back(evaluate(*argument));
  for (const auto& [name, value] : given.named) arguments.named.emplace_back(Text(name, Origin::frame), evaluate(*value));
  if (given.more_positional) {
    for (Value& item : items_of(evaluate(*given.more_positional), budget_)) arguments.positional.push_back(std::move(item));
  }
  if (!given.more_named) return arguments;
  const Value more = evaluate(*given.more_named);
  if (!more.dict()) fail("'**' before a " + more.type_name(), "a dict");
  for (const auto& [name, value] : more.dict()->entries) {
    if (!name.is_text()) fail("a named argument's name is a " + name.type_name(), "a string");
    arguments.named.emplace_back(name.text(), value);
  }
  return arguments;
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  require_defined(callee);
  const Budget::Level level(budget_);
  if (callee.object() == nullptr) fail("a " + callee.type_name() + " cannot be called");
  return callee.object()->call(*this, std::move(arguments));
}

/// A method of plain data is called without an object for it.
Value Interpreter::value_of(const Call& node) {
  if (const auto* attribute_node = std::get_if<Attribute>(&node.callee->node)) {
    const Value target = evaluate(*attribute_node->target);
    if (const FilterFunction method = target.object() ? nullptr : find_method(target, attribute_node->name)) {
      return method(*this, target, evaluate_arguments(node.arguments));
    }
    const Value callee = attribute(target, attribute_node->name);
    return call(callee, evaluate_arguments(node.arguments));
  }
  const Value callee = evaluate(*node.callee);
  return call(callee, evaluate_arguments(node.arguments));
}

Value Interpreter::filter(const std::string& name, const Value& input, Arguments arguments) {
  const FilterFunction function = find_filter(name);
  if (function == nullptr) fail("unknown filter '" + escaped(name, 40) + "'", filter_names());
  return function(*this, input, std::move(arguments));
}

bool Interpreter::test(const std::string& name, const Value& input, Arguments arguments) {
  const TestFunction function = find_test(name);
  if (function == nullptr) fail("unknown test '" + escaped(name, 40) + "'", test_names());
  return function(*this, input, std::move(arguments));
}

Value Interpreter::call_macro(const MacroBlock& macro, const std::shared_ptr<Scope>& closure, Arguments arguments) {
  const Budget::Level level(budget_);
  const std::string where = "macro '" + escaped(macro.name, 40) + "'";
  Text text;
  Text* outer = std::exchange(out_, &text);
  in_new_scope(closure, [&] {
    std::size_t next = 0;
    bool binds_caller = macro.takes_caller;
    for (const Parameter& parameter : macro.parameters) {
      if (parameter.name == "caller") binds_caller = false;
      std::optional<Value> value;
      if (next < arguments.positional.size()) {
        value = arguments.positional[next++];
      } else {
        value = take_named(arguments, parameter.name);
      }
      if (!value && parameter.default_value) value = evaluate(*parameter.default_value);
      set_name(parameter.name, value ? *value : Value::undefined("argument '" + escaped(parameter.name, 40) + "' of " + where + " was not given"));
    }
    if (binds_caller) set_name("caller", take_named(arguments, "caller").value_or(Value::undefined("'caller' is undefined: " + where + " was not called by a call block")));
    if (macro.takes_more_named) {
      std::vector<std::pair<Value, Value>> entries;
      for (auto& [name, value] : arguments.named) entries.emplace_back(std::move(name), std::move(value));
      set_name("kwargs", Value::dict(budget_, std::move(entries)));
    } else if (!arguments.named.empty()) {
      fail(where + " has no parameter '" + escaped(arguments.named[0].first.bytes(), 40) + "'", "", "is it given twice?");
    }
    if (macro.takes_more_positional) {
      const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(next);
      set_name("varargs", Value::tuple(budget_, {rest, arguments.positional.end()}));
    } else if (next < arguments.positional.size()) {
      fail(where + " takes no more than " + std::to_string(macro.parameters.size()) + " arguments");
    }
    run_body(macro.body);
  });
  out_ = outer;
  return text;
}

}  // namespace patchbay::jinja
