/// @file allocated_parts.h
/// Memory for a weight that is read from a file.
#pragma once
#include <string>

#include "patchbay/weight_format.h"

namespace patchbay {

/// A zeroed weight of a format, in host memory: as WeightFormat::allocate, for those who have no device at hand.
PackedWeight allocated_parts(const WeightFormat& format, const std::string& name, std::int64_t rows, std::int64_t cols);

}  // namespace patchbay
