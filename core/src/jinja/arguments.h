/// @file arguments.h
/// A call's arguments, by the names of its parameters.
#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

class Bound {
 public:
  /// @throws Error for more arguments than parameters, unknown names and names given twice.
  Bound(Arguments arguments, std::initializer_list<std::string_view> parameters, std::size_t required = 0);

  bool given(std::size_t index) const { return values_[index].has_value(); }
  /// @throws Error where it was not given.
  const Value& operator[](std::size_t index) const;
  Value value_or(std::size_t index, Value otherwise) const { return values_[index] ? *values_[index] : std::move(otherwise); }
  bool truth_or(std::size_t index, bool otherwise) const { return values_[index] ? values_[index]->truth() : otherwise; }
  /// @throws Error for another type.
  std::int64_t integer_or(std::size_t index, std::int64_t otherwise) const;
  std::int64_t integer(std::size_t index) const;
  const Text& text(std::size_t index) const;
  /// Given, and not none.
  bool is_set(std::size_t index) const { return values_[index] && !values_[index]->is_none(); }

 private:
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace patchbay::jinja
