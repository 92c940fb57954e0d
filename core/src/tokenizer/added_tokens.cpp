#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace patchbay {
namespace {

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}
std::size_t spaces_at_end(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    const Utf8Unit unit = first_utf8_unit(text.substr(last));
    if (unit.kind != Utf8Unit::Kind::character || !is_white_space(unit.code_point)) break;
    text.remove_suffix(text.size() - last);
  }
  return size - text.size();
}
std::size_t spaces_at_start(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty()) {
    const Utf8Unit unit = first_utf8_unit(text);
    if (unit.kind != Utf8Unit::Kind::character || !is_white_space(unit.code_point)) break;
    text.remove_prefix(unit.bytes);
  }
  return size - text.size();
}

bool ends_with_word(std::string_view text) { return !text.empty() && is_word(first_utf8_unit(text.substr(last_character(text))).code_point); }
bool starts_with_word(std::string_view text) { return !text.empty() && is_word(first_utf8_unit(text).code_point); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_partition(tokens_, &AddedToken::special);  // of tokens that read the same, a special one counts
  std::vector<Trie::Key> keys;
  for (std::size_t i = 0; i < tokens_.size(); ++i) keys.push_back({tokens_[i].content, static_cast<std::int32_t>(i)});
  trie_ = Trie(std::move(keys));
}

bool Frame::allows(const AddedToken& token, std::size_t begin, std::size_t end) {
  while (!data.empty() && data.front().end <= begin) data = data.subspan(1);
  if (data.empty() || data.front().begin >= end) return true;
  if (token.special) return false;
  return spaces_at_start(token.content) == token.content.size() || own_words.find(token.content) == std::string_view::npos;
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from, Frame& frame) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    Found found{begin, begin, nullptr};
    trie_.prefixes(text.substr(begin), [&](std::size_t length, std::int32_t index) {
      const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
      if (frame.allows(token, begin, begin + length)) found = {begin, begin + length, &token};
    });
    if (found.token != nullptr) return found;
  }
  return {text.size(), text.size(), nullptr};
}

void AddedTokens::split(std::string_view text, bool parse_special, FunctionRef<void(std::size_t, std::size_t, Token)> part, Frame frame) const {
  std::size_t done = 0;
  for (std::size_t from = 0; from < text.size();) {
    const Found found = find(text, from, frame);
    if (found.token == nullptr) break;
    from = found.end;
    if (found.token->special && !parse_special) continue;
    if (found.token->single_word && (ends_with_word(text.substr(0, found.begin)) || starts_with_word(text.substr(found.end)))) continue;
    std::size_t begin = found.begin, end = found.end;
    if (found.token->lstrip) begin = std::max(begin - spaces_at_end(text.substr(0, begin)), done);
    if (found.token->rstrip) end += spaces_at_start(text.substr(end));
    if (begin >= end) continue;  // white space that the token before has swallowed
    if (begin > done) part(done, begin, -1);
    part(begin, end, found.token->token);
    done = end;
  }
  if (done < text.size()) part(done, text.size(), -1);
}

}  // namespace patchbay
