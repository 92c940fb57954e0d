/// @file utf8_prefix.h
/// Where a text stops being UTF-8: for messages.
#pragma once
#include <cstddef>
#include <string_view>

#include "patchbay/error.h"

namespace patchbay {

/// How many bytes of `text` are UTF-8 before the first that are not; all, where is_utf8().
PATCHBAY_API std::size_t utf8_prefix(std::string_view text);

}  // namespace patchbay
