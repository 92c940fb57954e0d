/// @file text_table.h
/// Columns of text for a terminal, aligned by what a reader sees, not by bytes.
#pragma once
#include <string>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

struct PATCHBAY_API TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right;  ///< columns aligned to the right; missing: left

  /// utf8: rules and +- as UTF-8 characters, else ASCII alone.
  std::string text(bool utf8) const;
};

/// Characters of UTF-8 text.
PATCHBAY_API std::size_t width_of(const std::string& text);

}  // namespace patchbay
