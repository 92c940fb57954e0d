/// @file failures.h
/// What exceptions that are not ours say to people.
#pragma once
#include <exception>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

/// The text of an Error; of a file system's error its path, the reason and what to do; "out of memory" of a std::bad_alloc.
PATCHBAY_API std::string reason_of(const std::exception& error);

/// What to do about logits that are no numbers.
inline constexpr const char* kLogitsRemedy =
    "run patchbay check on the model: it names weights that are no numbers; where there are none, patchbay bisect defaults SETTINGS --model MODEL names the first layer that parts from the defaults";

}  // namespace patchbay
