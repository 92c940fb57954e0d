/// @file text_range.h
/// A stretch of a text.
#pragma once
#include <cstddef>

namespace patchbay {

/// Bytes [begin, end).
struct TextRange {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

}  // namespace patchbay
