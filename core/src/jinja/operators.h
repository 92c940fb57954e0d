/// @file operators.h
/// + - * / // % ** as Python computes them, on 64-bit integers: what does not fit is an error.
#pragma once
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

Value binary(std::string_view sign, const Value& left, const Value& right, Budget& budget);
Value negated(const Value& value);
/// `text % values`.
Text formatted(const Text& format, const Value& values, Budget& budget);

}  // namespace patchbay::jinja
