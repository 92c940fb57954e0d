#include "jinja/objects.h"

#include "jinja/arguments.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

std::int64_t integer(std::size_t number) { return static_cast<std::int64_t>(number); }

}  // namespace

std::optional<Value> Macro::attribute(Interpreter& interpreter, std::string_view name) {
  if (name == "name") return Value::text(node_.name);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const Parameter& parameter : node_.parameters) names.push_back(Value::text(parameter.name));
  return Value::tuple(interpreter.budget(), std::move(names));
}

std::optional<Value> Namespace::attribute(Interpreter&, std::string_view name) {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}
bool Namespace::set_attribute(std::string_view name, Value value) {
  if (name.starts_with('_')) fail("a namespace holds no names with '_' first: '" + escaped(name, 40) + "'");
  values_.insert_or_assign(std::string(name), std::move(value));
  return true;
}

Value LoopState::call(Interpreter& interpreter, Arguments arguments) {
  if (!node_.recursive) fail("'loop' is called, and the loop is not recursive", "{% for ... recursive %}");
  const Bound bound(std::move(arguments), {"iterable"}, 1);
  return interpreter.run_loop_again(node_, bound[0], depth_ + 1, outside_);
}

std::optional<Value> LoopState::attribute(Interpreter& interpreter, std::string_view name) {
  const bool last = index + 1 == items.size();
  if (name == "index") return Value(integer(index) + 1);
  if (name == "index0") return Value(integer(index));
  if (name == "revindex") return Value(integer(items.size() - index));
  if (name == "revindex0") return Value(integer(items.size() - index) - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(last);
  if (name == "length") return Value(integer(items.size()));
  if (name == "depth") return Value(std::int64_t{depth_ + 1});
  if (name == "depth0") return Value(std::int64_t{depth_});
  if (name == "previtem") return index == 0 ? Value::undefined("there is no previous item") : items[index - 1];
  if (name == "nextitem") return last ? Value::undefined("there is no next item") : items[index + 1];
  if (name == "cycle") {
    return Value(interpreter.make_object<Function>([this](Interpreter&, Arguments arguments) {
      if (arguments.positional.empty()) fail("cycle() without items");
      return arguments.positional[index % arguments.positional.size()];
    }));
  }
  if (name == "changed") {
    return Value(interpreter.make_object<Function>([this](Interpreter& self, Arguments arguments) {
      Value now = Value::tuple(self.budget(), std::move(arguments.positional));
      const bool changed = !last_changed_ || !equal(*last_changed_, now, self.budget());
      last_changed_ = std::move(now);
      return Value(changed);
    }));
  }
  return std::nullopt;
}

std::optional<Value> Cycler::attribute(Interpreter& interpreter, std::string_view name) {
  if (name == "current") return items_[at_];
  if (name != "next" && name != "reset") return std::nullopt;
  return Value(interpreter.make_object<Function>([this, steps = name == "next"](Interpreter&, Arguments arguments) {
    const Bound bound(std::move(arguments), {});
    const std::size_t current = std::exchange(at_, steps ? (at_ + 1) % items_.size() : 0);
    return steps ? items_[current] : Value();
  }));
}

Value Joiner::call(Interpreter&, Arguments arguments) {
  const Bound bound(std::move(arguments), {});
  return std::exchange(used_, true) ? separator_ : Value::text("");
}

}  // namespace patchbay::jinja
