/// @file value.h
/// Values of templates: Python's, as far as Jinja templates see them. Immutable but for Objects; cheap to copy.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/limits.h"
#include "jinja/text.h"

namespace patchbay::jinja {

class Value;
class Interpreter;
struct Arguments;

/// What a name that nobody set, or a missing key, stands for. It prints as nothing; most other uses are errors that say `what`.
struct Undefined {
  std::shared_ptr<const std::string> what;  ///< "'x' is undefined"
};
struct None {};

struct Sequence {
  /// What Python would have here: they print and compare differently, and a generator can be read once.
  enum class Kind { list, tuple, range, generator, dict_keys, dict_values, dict_items };
  Kind kind = Kind::list;
  std::vector<Value> items;
  int depth = 1;  ///< of containers in each other, this one included
  mutable bool used_up = false;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  ///< in the order of insertion
  int depth = 1;
};

/// What is not plain data: functions, macros, namespaces, loops. Owned by the interpreter, alive as long as it.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, Arguments arguments);
  virtual std::optional<Value> attribute(Interpreter& interpreter, std::string_view name);
  /// False: this kind of object has no attributes to set.
  virtual bool set_attribute(std::string_view name, Value value);
};

class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(Object* object) : data_(object) {}
  Value(const char*) = delete;
  static Value undefined(std::string what) { return Value(Undefined{std::make_shared<const std::string>(std::move(what))}); }
  static Value text(std::string bytes) { return Value(Text(std::move(bytes), Origin::frame)); }
  /// @throws Error when containers nest too deep.
  static Value sequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items);
  static Value list(Budget& budget, std::vector<Value> items) { return sequence(budget, Sequence::Kind::list, std::move(items)); }
  static Value tuple(Budget& budget, std::vector<Value> items) { return sequence(budget, Sequence::Kind::tuple, std::move(items)); }
  /// Of entries with one key the last value stays, in the place of the first. @throws Error for keys that cannot be keys, too.
  static Value dict(Budget& budget, std::vector<std::pair<Value, Value>> entries);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }  ///< and no bool
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_integer() || is_real(); }
  bool is_text() const { return std::holds_alternative<std::shared_ptr<const Text>>(data_); }

  const std::string& what_is_undefined() const { return *std::get<Undefined>(data_).what; }
  bool boolean() const { return std::get<bool>(data_); }
  /// Of an integer or a bool.
  std::int64_t integer() const { return is_bool() ? std::int64_t{boolean()} : std::get<std::int64_t>(data_); }
  /// Of a number.
  double real() const { return is_real() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  /// Null where the value is something else.
  const Sequence* sequence() const;
  const Dict* dict() const;
  Object* object() const;
  /// The same container, text or object in memory, or equal as a plain value: Python's `is`.
  bool same_as(const Value& other) const;

  bool truth() const;
  std::string type_name() const;  ///< Python's: "str", "dict", ...

 private:
  explicit Value(Undefined value) : data_(std::move(value)) {}
  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Object*> data_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;  ///< a name that came by ** may be data
};

bool equal(const Value& a, const Value& b, Budget& budget);
/// a < b, a == b, a > b as Python orders. @throws Error for values that have no order; NaN is unordered.
std::partial_ordering order(const Value& a, const Value& b, Budget& budget, std::string_view sign = "<");
const Value* find(const Dict& dict, const Value& key, Budget& budget);
/// The items that a loop would see. @throws Error for what cannot be iterated over.
std::vector<Value> items_of(const Value& value, Budget& budget);
bool is_iterable(const Value& value);
/// @throws Error where the value is undefined.
void require_defined(const Value& value);

/// Python's str() and repr(); `bytes` without origins, for messages.
Text to_text(const Value& value, Budget& budget);
Text to_repr(const Value& value, Budget& budget);
std::string real_repr(double value);

}  // namespace patchbay::jinja
