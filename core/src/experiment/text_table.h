/// @file text_table.h
/// Columns of text for a terminal, aligned by what a reader sees, not by bytes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

struct PATCHBAY_API TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right;  ///< columns aligned to the right; missing: left

  /// utf8: rules and +- as UTF-8 characters, else ASCII alone.
  std::string text(bool utf8) const;
  /// At most `columns` characters wide where the cells allow it: what does not fit follows in further tables, each with the first
  /// `repeated` columns again. 0: one table.
  std::string text(bool utf8, std::size_t columns, std::size_t repeated) const;

 private:
  TextTable part(const std::vector<std::size_t>& chosen) const;
};

/// "1 window", "2 windows".
PATCHBAY_API std::string counted(std::int64_t n, std::string_view noun);
PATCHBAY_API std::string counted(const std::string& n, std::string_view noun);  ///< n as text, which may be no number

/// With +- for each ±, the one character of tables and legends that ASCII lacks.
PATCHBAY_API std::string ascii(std::string text);

/// Characters of UTF-8 text.
PATCHBAY_API std::size_t width_of(const std::string& text);

}  // namespace patchbay
