/// @file added_tokens.h
/// Finds added tokens in a text, before normalisation or after it.
#pragma once
#include <string_view>
#include <vector>

#include "patchbay/tensor.h"
#include "tokenizer/description.h"
#include "tokenizer/trie.h"

namespace patchbay {

/// Thread rule: const methods from any thread.
class AddedTokens {
 public:
  /// The contents as they are to be found: those of normalised tokens, normalised.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  /// Calls part(begin, end, token) in order; token -1: text between tokens. Of tokens that begin at one place the longest counts. Text that
  /// spells a special token is passed over as text unless parse_special.
  void split(std::string_view text, bool parse_special, FunctionRef<void(std::size_t, std::size_t, Token)> part) const;

 private:
  struct Found { std::size_t begin, end; const AddedToken* token; };
  Found find(std::string_view text, std::size_t from) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;  ///< to indices into tokens_
};

}  // namespace patchbay
