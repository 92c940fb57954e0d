/// @file byte_bpe.h
/// Byte-pair encoding over bytes (Sennrich et al. 2016; bytes as GPT-2 does): a piece starts as one token per byte, and the pair
/// that was learnt first is merged until none is left.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model_file.h"
#include "patchbay/model_runner.h"

namespace patchbay {

/// What `tokenizer.ggml.token_type` says of a token.
enum class TokenType : std::int64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// Thread rule: const methods from any thread.
class ByteBpe {
 public:
  /// Reads vocabulary and merges. @throws Error naming the merge that makes no sense.
  explicit ByteBpe(const ModelFile& file);
  ByteBpe(const ByteBpe&) = delete;  // by_bytes_ points into text_
  ByteBpe& operator=(const ByteBpe&) = delete;

  /// Working memory of encode, kept between pieces.
  class Workspace;
  /// Appends the tokens of one piece, all of whose bytes have tokens. Time n log n in the piece's length, no recursion.
  void encode(std::string_view piece, bool whole_pieces, Workspace& workspace, std::vector<Token>& tokens) const;

  int size() const { return static_cast<int>(types_.size()); }
  TokenType type(Token token) const { return types_[static_cast<std::size_t>(token)]; }
  /// What the token stands for; of a special token, its text.
  std::string_view bytes(Token token) const {
    const auto i = static_cast<std::size_t>(token);
    return std::string_view(text_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }
  /// -1: this vocabulary has no token for the byte.
  Token byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  struct Merge { std::int32_t rank; Token result; };
  void read_vocabulary(const ModelFile& file);
  void read_merges(const ModelFile& file);
  Token find(std::string_view bytes) const;  ///< -1: no token
  const Merge* find_merge(Token left, Token right) const;

  std::string text_;                 ///< the bytes of all tokens, one after the other
  std::vector<std::size_t> starts_;  ///< of each token in text_, and the end
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, Token> by_bytes_;  ///< special tokens left out
  std::unordered_map<std::uint64_t, Merge> merges_;       ///< by left and right
  std::array<Token, 256> byte_tokens_{};
};

class ByteBpe::Workspace {
  friend class ByteBpe;
  /// A doubly linked list; token -1: merged into its left neighbour.
  struct Symbol { Token token; std::int32_t previous, next; };
  struct Candidate {
    std::int32_t rank, symbol;  ///< symbol: index of the left one
    Token left, right, result;
    /// Orders a heap: earliest merge on top, leftmost among equals.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : symbol > other.symbol;
    }
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace patchbay
