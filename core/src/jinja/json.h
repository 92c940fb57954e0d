/// @file json.h
/// JSON to values of templates, and back.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "jinja/value.h"

namespace patchbay::jinja {

/// @throws Error for integers outside 64 bits, bytes that are no UTF-8, and nesting that is too deep.
Value from_json(const nlohmann::ordered_json& json, Origin origin, Budget& budget);

/// As Python's json.dumps writes.
struct JsonStyle {
  bool ascii = false, sorted = false;
  bool lines = false;             ///< an entry a line, each level indented by `indent`
  Text indent, comma, colon;
};
Text to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace patchbay::jinja
