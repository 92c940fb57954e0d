/// @file objects.h
/// The values that are no plain data.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jinja/interpreter.h"

namespace patchbay::jinja {

/// A function of the template language, or a method bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Value(Interpreter&, Arguments)>;
  explicit Function(Body body) : body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override { return body_(interpreter, std::move(arguments)); }

 private:
  Body body_;
};

class Macro : public Object {
 public:
  Macro(const MacroBlock& node, std::shared_ptr<Scope> closure) : node_(node), closure_(std::move(closure)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override { return interpreter.call_macro(node_, closure_, std::move(arguments)); }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;

 private:
  const MacroBlock& node_;
  std::shared_ptr<Scope> closure_;
};

/// namespace(): the one thing that templates can change.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  bool set_attribute(std::string_view name, Value value) override;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// `loop` inside of a loop.
class LoopState : public Object {
 public:
  LoopState(const For& node, std::vector<Value> all, int depth, std::shared_ptr<Scope> outside)
      : items(std::move(all)), node_(node), depth_(depth), outside_(std::move(outside)) {}
  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return node_.recursive; }
  Value call(Interpreter& interpreter, Arguments arguments) override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;

  const std::vector<Value> items;
  std::size_t index = 0;

 private:
  const For& node_;
  int depth_;
  std::shared_ptr<Scope> outside_;
  std::optional<Value> last_changed_;
};

/// cycler(a, b): each call of next() gives the next of its items.
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;

 private:
  std::vector<Value> items_;
  std::size_t at_ = 0;
};

/// joiner(", "): nothing at its first call, the separator at all others.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace patchbay::jinja
