/// @file failures.h
/// What exceptions that are not ours say to people.
#pragma once
#include <exception>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

/// The text of an Error; of a file system's error its path, the reason and what to do; "out of memory" of a std::bad_alloc.
PATCHBAY_API std::string reason_of(const std::exception& error);

}  // namespace patchbay
