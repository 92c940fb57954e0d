/// @file json_text.h
/// JSON as commands print it.
#pragma once
#include <string>

namespace patchbay::app {

/// One line, whatever bytes a path or a loader's message holds: what is no UTF-8 becomes U+FFFD, as JSON has no word for it.
template <class AnyJson>
std::string json_text(const AnyJson& json) {
  return json.dump(-1, ' ', false, AnyJson::error_handler_t::replace);
}

}  // namespace patchbay::app
