#include "jinja/interpreter.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/tables.h"
#include "utf8.h"

namespace patchbay::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.charge(kStepUnits);
  const int outer = std::exchange(line_, expression.line);
  Value value = std::visit([&](const auto& node) { return value_of(node); }, expression.node);
  line_ = outer;
  return value;
}

Value Interpreter::value_of(const Name& node) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    const auto found = scope->names.find(node.name);
    if (found != scope->names.end()) return found->second;
  }
  if (const GlobalFunction function = find_global(node.name)) return Value(make_object<Function>(function));
  return Value::undefined("'" + escaped(node.name, 40) + "' is undefined");
}

Value Interpreter::value_of(const NamespaceTarget& node) { return attribute(value_of(Name{node.space}), node.name); }

Value Interpreter::value_of(const ListDisplay& node) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
  return Value::sequence(budget_, node.tuple ? Sequence::Kind::tuple : Sequence::Kind::list, std::move(items));
}

Value Interpreter::value_of(const DictDisplay& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : node.entries) {
    Value evaluated = evaluate(*key);
    entries.emplace_back(std::move(evaluated), evaluate(*value));
  }
  return Value::dict(budget_, std::move(entries));
}

Value Interpreter::value_of(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  if (node.sign == '!') return Value(!operand.truth());
  return node.sign == '-' ? negated(operand) : binary("+", operand, Value(std::int64_t{0}), budget_);
}

Value Interpreter::value_of(const Binary& node) {
  const Value left = evaluate(*node.left);
  return binary(node.sign, left, evaluate(*node.right), budget_);
}

Value Interpreter::value_of(const Concat& node) {
  Text text;
  for (const ExpressionPtr& part : node.parts) {
    text.append(text_of(evaluate(*part)));
    budget_.check_size(text.size());
  }
  return text;
}

Value Interpreter::value_of(const Logic& node) {
  Value left = evaluate(*node.left);
  return left.truth() == node.is_or ? left : evaluate(*node.right);
}

bool Interpreter::holds(const std::string& sign, const Value& left, const Value& right) {
  if (sign == "in" || sign == "not in") return test("in", left, {{right}, {}}) == (sign == "in");
  if (sign == "==" || sign == "!=") return equal(left, right, budget_) == (sign == "==");
  const std::partial_ordering found = order(left, right, budget_, sign);
  if (sign == "<") return found < 0;
  if (sign == "<=") return found <= 0;
  return sign == ">" ? found > 0 : found >= 0;
}

/// a < b < c is a < b and b < c.
Value Interpreter::value_of(const Compare& node) {
  Value left = evaluate(*node.first);
  for (const auto& [sign, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!holds(sign, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::value_of(const Conditional& node) {
  if (evaluate(*node.test).truth()) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return Value::undefined("an 'if' without an 'else' did not hold");
}

Value Interpreter::value_of(const Item& node) {
  const Value target = evaluate(*node.target);
  return item(target, evaluate(*node.index));
}

Value Interpreter::value_of(const Slice& node) {
  const Value target = evaluate(*node.target), start = evaluate_or_none(node.start), stop = evaluate_or_none(node.stop);
  return slice(target, start, stop, evaluate_or_none(node.step));
}

Value Interpreter::value_of(const Filter& node) {
  const Value input = node.input ? evaluate(*node.input) : std::exchange(filter_input_, Value());
  return filter(node.name, input, evaluate_arguments(node.arguments));
}

Value Interpreter::value_of(const Test& node) {
  const Value input = evaluate(*node.input);
  return Value(test(node.name, input, evaluate_arguments(node.arguments)) != node.negated);
}

}  // namespace patchbay::jinja
