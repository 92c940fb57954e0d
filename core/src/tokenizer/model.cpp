#include "tokenizer/model.h"

#include <algorithm>

namespace patchbay {

bool append_byte_tokens(const Vocabulary& vocabulary, std::string_view bytes, std::vector<Token>& tokens) {
  const auto known = [&](char byte) { return vocabulary.byte_token(static_cast<unsigned char>(byte)) >= 0; };
  if (!std::ranges::all_of(bytes, known)) return false;
  for (const char byte : bytes) tokens.push_back(vocabulary.byte_token(static_cast<unsigned char>(byte)));
  return true;
}

void append_unknown(const Vocabulary& vocabulary, std::string_view bytes, bool byte_fallback, Token unknown, std::vector<Token>& tokens) {
  if (byte_fallback && append_byte_tokens(vocabulary, bytes, tokens)) return;
  if (unknown < 0) throw MissingCharacter{std::string(bytes)};
  tokens.push_back(unknown);
}

bool PieceCache::get(std::string_view piece, std::vector<Token>& tokens) const {
  if (piece.size() > kMaxPieceBytes) return false;
  const auto found = ranges_.find(piece);
  if (found == ranges_.end()) return false;
  const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(found->second.begin);
  tokens.insert(tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(found->second.count));
  return true;
}

void PieceCache::put(std::string_view piece, const Token* tokens, std::size_t count) {
  if (piece.size() > kMaxPieceBytes || ranges_.size() >= kMaxPieces) return;
  ranges_.emplace(piece, Range{tokens_.size(), count});
  tokens_.insert(tokens_.end(), tokens, tokens + count);
}

}  // namespace patchbay
