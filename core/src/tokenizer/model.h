/// @file model.h
/// The third step of a tokenizer: one piece of text to tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/description.h"

namespace patchbay {

/// A character that has no token, in a vocabulary without an unknown token: the text cannot be encoded.
struct MissingCharacter { std::string bytes; };

/// Thread rule: const methods from any thread.
class TokenModel {
 public:
  /// Working memory of one text.
  struct Workspace {
    virtual ~Workspace() = default;
  };
  virtual ~TokenModel() = default;
  virtual std::unique_ptr<Workspace> workspace() const = 0;
  /// Appends the tokens of one piece of UTF-8. Time n log n in the piece's length, no recursion. @throws MissingCharacter.
  virtual void encode(std::string_view piece, Workspace& workspace, std::vector<Token>& tokens) const = 0;
  /// Appends the tokens of a character that the vocabulary lacks: its bytes, or the unknown token. @throws MissingCharacter.
  virtual void encode_unknown(std::string_view bytes, std::vector<Token>& tokens) const = 0;
};

std::unique_ptr<TokenModel> make_bpe(BpeDescription description, const Vocabulary& vocabulary);
std::unique_ptr<TokenModel> make_unigram(UnigramDescription description, const Vocabulary& vocabulary);

/// Appends <0xNN> for each byte. False, and nothing appended, when one of them has no token.
bool append_byte_tokens(const Vocabulary& vocabulary, std::string_view bytes, std::vector<Token>& tokens);

/// What encode_unknown does: the bytes' tokens with `byte_fallback`, else `unknown`. @throws MissingCharacter where neither is there.
void append_unknown(const Vocabulary& vocabulary, std::string_view bytes, bool byte_fallback, Token unknown, std::vector<Token>& tokens);

/// What short pieces became: texts repeat their words.
class PieceCache {
 public:
  /// Appends a piece's tokens: those kept from before, or else what encode(tokens) appends.
  template <class Encode>
  void append(std::string_view piece, std::vector<Token>& tokens, Encode encode) {
    if (get(piece, tokens)) return;
    const std::size_t before = tokens.size();
    encode(tokens);
    put(piece, tokens.data() + before, tokens.size() - before);
  }

 private:
  /// True: the tokens were appended.
  bool get(std::string_view piece, std::vector<Token>& tokens) const;
  void put(std::string_view piece, const Token* tokens, std::size_t count);

  static constexpr std::size_t kMaxPieces = 1 << 16, kMaxPieceBytes = 64;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Range { std::size_t begin, count; };
  std::unordered_map<std::string, Range, Hash, std::equal_to<>> ranges_;
  std::vector<Token> tokens_;
};

}  // namespace patchbay
