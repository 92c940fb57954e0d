/// @file vocabulary.h
/// The tokens' texts as the file writes them, by number and by text.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "patchbay/model_runner.h"

namespace patchbay {

/// What a token is for. Only normal tokens are found in text by the model: text never spells a control or a byte token. Added tokens are
/// cut out before; those that are part of the text's frame are special.
enum class TokenType : std::uint8_t { absent, normal, added, special, byte };

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;  // not copied: by_text_ points into texts_
  Vocabulary& operator=(Vocabulary&&) = default;
  /// Room for so many tokens.
  void reserve(std::size_t tokens) { by_text_.reserve(tokens); }
  /// Numbers may come in any order and leave holes. False when the number or, among normal tokens, the text is taken.
  bool add(Token token, std::string text, TokenType type);
  /// Takes the text of a special token from the model's sight.
  void make_special(Token token);

  int size() const { return static_cast<int>(texts_.size()); }
  std::string_view text(Token token) const { return texts_[static_cast<std::size_t>(token)]; }
  TokenType type(Token token) const { return types_[static_cast<std::size_t>(token)]; }
  /// A normal token; -1: none.
  Token find(std::string_view text) const;
  /// The token <0xNN>; -1: none.
  Token byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  std::deque<std::string> texts_;  // stays where it is as it grows: by_text_ points into it
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, Token> by_text_;
  std::array<Token, 256> byte_tokens_ = all_absent();
  static std::array<Token, 256> all_absent() {
    std::array<Token, 256> none;
    none.fill(-1);
    return none;
  }
};

/// The byte that "<0x0A>" writes.
std::optional<unsigned char> byte_of_text(std::string_view text);

}  // namespace patchbay
