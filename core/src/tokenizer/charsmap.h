/// @file charsmap.h
/// SentencePiece's "precompiled charsmap": a double-array trie of character sequences and what each is replaced by.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

class Charsmap {
 public:
  /// @throws Error when the blob is too short for what it says of itself.
  explicit Charsmap(std::string_view blob);

  struct Match { std::size_t bytes; std::string_view replacement; };
  std::optional<Match> shortest(std::string_view text) const { return match(text, true); }
  std::optional<Match> longest(std::string_view text) const { return match(text, false); }

  /// From left to right the longest key, as SentencePiece does.
  std::string replaced(std::string_view text) const;
  /// As Hugging Face's `Precompiled` does: a user-perceived character of less than 6 bytes is replaced as a whole by what its shortest key
  /// says; else each of its code points on its own.
  std::string replaced_by_grapheme(std::string_view text) const;

 private:
  std::optional<Match> match(std::string_view text, bool first) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;  ///< the replacements, each ended by NUL
};

}  // namespace patchbay
