/// @file string_literal.h
/// Escapes in string literals, Python's.
#pragma once
#include <string>
#include <string_view>

namespace patchbay::jinja {

/// What stands between the quotes, decoded. An unknown escape stands for itself, backslash and all. @throws Error.
std::string decode_string(std::string_view written);

}  // namespace patchbay::jinja
