/// @file attribute_getter.h
/// The `attribute` argument of filters: "name", "address.city", 0, or several with commas between them.
#pragma once
#include <optional>
#include <vector>

#include "jinja/interpreter.h"

namespace patchbay::jinja {

class AttributeGetter {
 public:
  /// `attribute` is a string or an integer; none: the item itself. `ignore_case`: strings come out in lower case.
  AttributeGetter(Interpreter& interpreter, const Value& attribute, bool ignore_case = false, std::optional<Value> otherwise = std::nullopt);
  Value operator()(const Value& item) const;

 private:
  Interpreter& interpreter_;
  std::vector<Value> keys_;
  bool ignore_case_;
  std::optional<Value> otherwise_;  ///< for what is not there
};

}  // namespace patchbay::jinja
