/// @file tables.h
/// What templates find by name: functions, filters, tests, methods.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "jinja/interpreter.h"

namespace patchbay::jinja {

using FilterFunction = Value (*)(Interpreter&, const Value& input, Arguments);
using TestFunction = bool (*)(Interpreter&, const Value& input, Arguments);
using GlobalFunction = Value (*)(Interpreter&, Arguments);

struct NamedFilter { std::string_view name; FilterFunction function; };
struct NamedTest { std::string_view name; TestFunction function; };
struct NamedGlobal { std::string_view name; GlobalFunction function; };

// Null where there is none of that name.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
GlobalFunction find_global(std::string_view name);
/// A method of strings, lists or dicts, for a value of that kind.
FilterFunction find_method(const Value& value, std::string_view name);
/// Methods that Python has and the sandbox does not allow: they would change the value.
bool changes_value(const Value& value, std::string_view name);

// The parts of the table of filters.
std::vector<NamedFilter> text_filters();
std::vector<NamedFilter> list_filters();
std::vector<NamedFilter> choosing_filters();

/// All names of a table, for messages.
std::string filter_names();
std::string test_names();

}  // namespace patchbay::jinja
