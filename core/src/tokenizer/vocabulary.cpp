#include "tokenizer/vocabulary.h"

#include <charconv>

namespace patchbay {

bool Vocabulary::add(Token token, std::string text, TokenType type) {
  const auto id = static_cast<std::size_t>(token);
  if (id >= texts_.size()) {
    texts_.resize(id + 1);
    types_.resize(id + 1, TokenType::absent);
  }
  if (types_[id] != TokenType::absent) return false;
  texts_[id] = std::move(text);
  types_[id] = type;
  if (const auto byte = type == TokenType::byte ? byte_of_text(texts_[id]) : std::nullopt) byte_tokens_[*byte] = token;
  return type != TokenType::normal || by_text_.emplace(texts_[id], token).second;
}

void Vocabulary::make_special(Token token) {
  const auto found = by_text_.find(text(token));
  if (found != by_text_.end() && found->second == token) by_text_.erase(found);
  types_[static_cast<std::size_t>(token)] = TokenType::special;
}

Token Vocabulary::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? -1 : found->second;
}

std::optional<unsigned char> byte_of_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned char byte = 0;
  const auto [end, code] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (code != std::errc() || end != text.data() + 5) return std::nullopt;
  return byte;
}

}  // namespace patchbay
