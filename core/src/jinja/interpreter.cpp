#include "jinja/interpreter.h"

#include "jinja/objects.h"
#include "jinja/operators.h"
#include "utf8.h"

namespace patchbay::jinja {

Text Interpreter::run(const Body& body, const Value& context) {
  for (const auto& [name, value] : context.dict()->entries) scope_->names.insert_or_assign(name.text().bytes(), value);
  Text text;
  out_ = whole_ = &text;
  run_body(body);
  return text;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const Statement& statement : body) {
    if (const Flow flow = run_statement(statement); flow != Flow::next) return flow;
  }
  return Flow::next;
}

/// After an error the line stays where it is, and so tells where the error came up.
Interpreter::Flow Interpreter::run_statement(const Statement& statement) {
  const Budget::Level level(budget_);
  budget_.charge(kStepUnits);
  const int outer = std::exchange(line_, statement.line);
  const Flow flow = std::visit([&](const auto& node) { return run_node(node); }, statement.node);
  line_ = outer;
  return flow;
}

void Interpreter::print(const Text& text) {
  budget_.charge(text.size());
  out_->append(text);
  budget_.check_size(out_->size());
}

Interpreter::Flow Interpreter::run_node(const Data& node) {
  print(node.text.text());
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const Print& node) {
  const Value value = evaluate(*node.value);
  print(text_of(value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (evaluate(*test).truth()) return run_body(body);
  }
  return run_body(node.otherwise);
}

/// An item as a condition on a loop hands it on: what is unpacked comes out as tuples.
Value Interpreter::unpacked(const Expression& target, const Value& value) {
  const auto* targets = std::get_if<ListDisplay>(&target.node);
  if (targets == nullptr) return value;
  std::vector<Value> items = items_of(value, budget_);
  for (std::size_t i = 0; i < items.size() && i < targets->items.size(); ++i) items[i] = unpacked(*targets->items[i], items[i]);
  return Value::tuple(budget_, std::move(items));
}

std::vector<Value> Interpreter::chosen_items(const For& node, std::vector<Value> items) {
  if (!node.filter) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    in_new_scope(scope_, [&] {
      set_name("loop", Value::undefined("'loop' is undefined in the condition of a loop"));
      item = unpacked(*node.target, item);
      assign(*node.target, item);
      if (evaluate(*node.filter).truth()) chosen.push_back(std::move(item));
    });
  }
  return chosen;
}

void Interpreter::run_loop(const For& node, std::vector<Value> items, int depth) {
  items = chosen_items(node, std::move(items));
  if (items.empty()) {
    in_new_scope(scope_, [&] { run_body(node.otherwise); });
    return;
  }
  LoopState* loop = make_object<LoopState>(node, std::move(items), depth, scope_);
  for (; loop->index < loop->items.size(); ++loop->index) {
    const Flow flow = in_new_scope(scope_, [&] {
      assign(*node.target, loop->items[loop->index]);
      set_name("loop", Value(loop));
      return run_body(node.body);
    });
    if (flow == Flow::break_loop) break;
  }
}

Text Interpreter::run_loop_again(const For& node, const Value& items, int depth, const std::shared_ptr<Scope>& scope) {
  Text text;
  Text* outer = std::exchange(out_, &text);
  in_new_scope(scope, [&] { run_loop(node, items_of(items, budget_), depth); });
  out_ = outer;
  return text;
}

Interpreter::Flow Interpreter::run_node(const For& node) {
  run_loop(node, items_of(evaluate(*node.iterable), budget_), 0);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const Set& node) {
  assign(*node.target, evaluate(*node.value));
  return Flow::next;
}

Text Interpreter::captured(const Body& body, const std::shared_ptr<Scope>& parent) {
  Text text;
  Text* outer = std::exchange(out_, &text);
  in_new_scope(parent, [&] { run_body(body); });
  out_ = outer;
  return text;
}

Interpreter::Flow Interpreter::run_node(const SetBlock& node) {
  Value value = captured(node.body, scope_);
  if (node.filters) {
    filter_input_ = std::move(value);
    value = evaluate(*node.filters);
  }
  assign(*node.target, value);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const FilterBlock& node) {
  filter_input_ = captured(node.body, scope_);
  print(text_of(evaluate(*node.filters)));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const MacroBlock& node) {
  set_name(node.name, Value(make_object<Macro>(node, scope_)));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const CallBlock& node) {
  const auto& called = std::get<Call>(node.call->node);
  const Value callee = evaluate(*called.callee);
  Arguments arguments = evaluate_arguments(called.arguments);
  arguments.named.emplace_back(Text("caller", Origin::frame), Value(make_object<Macro>(node.caller, scope_)));
  print(text_of(call(callee, std::move(arguments))));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_node(const With& node) {
  std::vector<Value> values;
  for (const auto& variable : node.variables) values.push_back(evaluate(*variable.second));
  return in_new_scope(scope_, [&] {
    for (std::size_t i = 0; i < values.size(); ++i) assign(*node.variables[i].first, values[i]);
    return run_body(node.body);
  });
}

Interpreter::Flow Interpreter::run_node(const Generation& node) {
  const std::size_t begin = out_->size();
  in_new_scope(scope_, [&] { run_body(node.body); });
  if (out_ == whole_) generation_.push_back({begin, out_->size()});
  return Flow::next;
}

void Interpreter::set_name(const std::string& name, Value value) {
  budget_.charge(sizeof(Value) + name.size());
  scope_->names.insert_or_assign(name, std::move(value));
}

void Interpreter::assign(const Expression& target, const Value& value) {
  if (const auto* name = std::get_if<Name>(&target.node)) return set_name(name->name, value);
  if (const auto* attribute = std::get_if<NamespaceTarget>(&target.node)) {
    const Value space = value_of(Name{attribute->space});
    require_defined(space);
    budget_.charge(sizeof(Value) + attribute->name.size());
    if (space.object() == nullptr || !space.object()->set_attribute(attribute->name, value)) {
      fail("'" + escaped(attribute->space, 40) + "' is a " + space.type_name() + " and cannot be changed", "namespace(...)");
    }
    return;
  }
  const auto& targets = std::get<ListDisplay>(target.node).items;
  const std::vector<Value> values = items_of(value, budget_);
  if (values.size() != targets.size()) {
    fail(std::to_string(values.size()) + " values for " + std::to_string(targets.size()) + " names", "as many as there are names");
  }
  for (std::size_t i = 0; i < targets.size(); ++i) assign(*targets[i], values[i]);
}

}  // namespace patchbay::jinja
