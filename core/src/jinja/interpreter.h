/// @file interpreter.h
/// Runs a template's tree. Statements in interpreter.cpp, expressions in expressions.cpp and subscripts.cpp, calls in calls.cpp.
#pragma once
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jinja/ast.h"
#include "jinja/value.h"

namespace patchbay::jinja {

/// Names and what they stand for. Loops, macros and blocks have scopes of their own; `if` has none.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> names;
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::optional<std::tm> now) : budget_(limits), now_(now), scope_(std::make_shared<Scope>()) {}

  /// `context` is a dict: its keys are the names that the template finds.
  Text run(const Body& body, const Value& context);
  int line() const { return line_; }  ///< of what was run last: where an error came up
  /// Parts of the output that {% generation %} blocks made, outside of macros.
  const std::vector<TextRange>& generation() const { return generation_; }

  Budget& budget() { return budget_; }
  const std::optional<std::tm>& now() const { return now_; }

  // For filters, methods and objects.
  Value call(const Value& callee, Arguments arguments);
  Value filter(const std::string& name, const Value& input, Arguments arguments);
  bool test(const std::string& name, const Value& input, Arguments arguments);
  /// value.name and value[key]; what is not there is Undefined.
  Value attribute(const Value& value, const std::string& name);
  Value item(const Value& value, const Value& key);
  Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);
  Text text_of(const Value& value) { return to_text(value, budget_); }
  Value call_macro(const MacroBlock& macro, const std::shared_ptr<Scope>& closure, Arguments arguments);
  /// One loop over items; `depth` counts loop(...) in itself.
  void run_loop(const For& node, std::vector<Value> items, int depth);
  Text run_loop_again(const For& node, const Value& items, int depth, const std::shared_ptr<Scope>& scope);
  template <class T, class... Parts>
  T* make_object(Parts&&... parts) {
    budget_.charge(sizeof(T));
    auto object = std::make_unique<T>(std::forward<Parts>(parts)...);
    T* made = object.get();
    objects_.push_back(std::move(object));
    return made;
  }

 private:
  enum class Flow { next, break_loop, continue_loop };
  Flow run_body(const Body& body);
  Flow run_statement(const Statement& statement);
  Flow run_node(const Data& node);
  Flow run_node(const Print& node);
  Flow run_node(const If& node);
  Flow run_node(const For& node);
  Flow run_node(const Set& node);
  Flow run_node(const SetBlock& node);
  Flow run_node(const MacroBlock& node);
  Flow run_node(const CallBlock& node);
  Flow run_node(const FilterBlock& node);
  Flow run_node(const With& node);
  Flow run_node(const Generation& node);
  Flow run_node(const Break&) { return Flow::break_loop; }
  Flow run_node(const Continue&) { return Flow::continue_loop; }
  Value unpacked(const Expression& target, const Value& value);
  std::vector<Value> chosen_items(const For& node, std::vector<Value> items);
  void print(const Text& text);
  void assign(const Expression& target, const Value& value);
  void set_name(const std::string& name, Value value);

  Value evaluate(const Expression& expression);
  Value evaluate_or_none(const ExpressionPtr& expression) { return expression ? evaluate(*expression) : Value(); }
  Value value_of(const Literal& node) { return node.value; }
  Value value_of(const Name& node);
  Value value_of(const ListDisplay& node);
  Value value_of(const DictDisplay& node);
  Value value_of(const Unary& node);
  Value value_of(const Binary& node);
  Value value_of(const Concat& node);
  Value value_of(const Logic& node);
  Value value_of(const Compare& node);
  Value value_of(const Conditional& node);
  Value value_of(const Attribute& node) { return attribute(evaluate(*node.target), node.name); }
  Value value_of(const Item& node);
  Value value_of(const Slice& node);
  Value value_of(const Call& node);
  Value value_of(const Filter& node);
  Value value_of(const Test& node);
  Value value_of(const NamespaceTarget& node);
  bool holds(const std::string& sign, const Value& left, const Value& right);
  Arguments evaluate_arguments(const CallArguments& arguments);

  /// Runs something in a scope of its own.
  template <class Work>
  auto in_new_scope(const std::shared_ptr<Scope>& parent, Work&& work) {
    budget_.charge(sizeof(Scope));
    const auto outer = std::exchange(scope_, std::make_shared<Scope>(parent, std::map<std::string, Value, std::less<>>()));
    const Restore restore{scope_, outer};
    return work();
  }
  struct Restore {
    std::shared_ptr<Scope>& scope;
    const std::shared_ptr<Scope>& outer;
    ~Restore() { scope = outer; }
  };
  /// What a body prints, in a scope of its own.
  Text captured(const Body& body, const std::shared_ptr<Scope>& parent);

  Budget budget_;
  std::optional<std::tm> now_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::shared_ptr<Scope> scope_;
  Text *out_ = nullptr, *whole_ = nullptr;  ///< where output goes now; the template's own
  Value filter_input_;  ///< the text of a block, on its way to the first of its filters
  std::vector<TextRange> generation_;
  int line_ = 1;
};

}  // namespace patchbay::jinja
