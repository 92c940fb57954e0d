/// @file added_tokens.h
/// Finds added tokens in a text, before normalisation or after it.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "patchbay/tensor.h"
#include "text_range.h"
#include "tokenizer/description.h"
#include "tokenizer/trie.h"

namespace patchbay {

/// Where a text comes from strangers, and what only the frame around it may say: special tokens, and others that the frame itself writes
/// (FramedText in tokenizer.h).
struct Frame {
  std::span<const TextRange> data;  ///< in order
  std::string_view own_words;
  /// Whether the token may be found at [begin, end). Asked from left to right.
  bool allows(const AddedToken& token, std::size_t begin, std::size_t end);
};

/// Thread rule: const methods from any thread.
class AddedTokens {
 public:
  /// The contents as they are to be found: those of normalised tokens, normalised.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  /// Calls part(begin, end, token) in order; token -1: text between tokens. Of tokens that begin at one place the longest counts. Text that
  /// spells a special token is passed over as text unless parse_special, and so is what the frame does not allow.
  void split(std::string_view text, bool parse_special, FunctionRef<void(std::size_t, std::size_t, Token)> part, Frame frame = {}) const;

 private:
  struct Found { std::size_t begin, end; const AddedToken* token; };
  Found find(std::string_view text, std::size_t from, Frame& frame) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;  ///< to indices into tokens_
};

}  // namespace patchbay
