#include "jinja/arguments.h"

#include <algorithm>

#include "utf8.h"

namespace patchbay::jinja {

Bound::Bound(Arguments arguments, std::initializer_list<std::string_view> parameters, std::size_t required) : parameters_(parameters), values_(parameters.size()) {
  std::string all;
  for (const std::string_view name : parameters_) all += (all.empty() ? "" : ", ") + std::string(name);
  if (all.empty()) all = "no arguments";
  if (arguments.positional.size() > values_.size()) fail("too many arguments: " + std::to_string(arguments.positional.size()), all);
  std::ranges::move(arguments.positional, values_.begin());
  for (auto& [given, value] : arguments.named) {
    const std::string& name = given.bytes();
    const auto index = static_cast<std::size_t>(std::ranges::find(parameters_, name) - parameters_.begin());
    if (index == parameters_.size()) fail("unknown argument '" + escaped(name, 40) + "'", all);
    if (values_[index]) fail("argument '" + name + "' is given twice");
    values_[index] = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i) (*this)[i];
}

const Value& Bound::operator[](std::size_t index) const {
  if (!values_[index]) fail("argument '" + std::string(parameters_[index]) + "' is missing");
  return *values_[index];
}

std::int64_t Bound::integer(std::size_t index) const {
  const Value& value = (*this)[index];
  require_defined(value);
  if (!value.is_integer() && !value.is_bool()) fail("argument '" + std::string(parameters_[index]) + "' is a " + value.type_name(), "an integer");
  return value.integer();
}
std::int64_t Bound::integer_or(std::size_t index, std::int64_t otherwise) const { return values_[index] ? integer(index) : otherwise; }

const Text& Bound::text(std::size_t index) const {
  const Value& value = (*this)[index];
  require_defined(value);
  if (!value.is_text()) fail("argument '" + std::string(parameters_[index]) + "' is a " + value.type_name(), "a string");
  return value.text();
}

}  // namespace patchbay::jinja
