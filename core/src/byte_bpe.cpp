#include "byte_bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "utf8.h"

namespace patchbay {
namespace {

/// GPT-2's alphabet: vocabularies write each byte as a printable character. Printable Latin-1 stands for itself, the other
/// 68 bytes, in order, for U+0100 and up.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    byte_of_.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      byte_of_[static_cast<std::size_t>(printable ? byte : next++)] = byte;
    }
  }
  /// Appends the bytes that `text` spells. False when a character is outside the alphabet.
  bool decode(std::string_view text, std::string& bytes) const {
    while (!text.empty()) {
      const Utf8Unit unit = first_utf8_unit(text);
      if (unit.kind != Utf8Unit::Kind::character || unit.code_point >= byte_of_.size()) return false;
      const int byte = byte_of_[unit.code_point];
      if (byte < 0) return false;
      bytes += static_cast<char>(byte);
      text.remove_prefix(unit.bytes);
    }
    return true;
  }

 private:
  std::array<int, 0x100 + 68> byte_of_;
};

template <class List>
const List& array_of(const ModelFile& file, std::string_view key, const char* wanted) {
  const MetaEntry* entry = file.find(key);
  const std::string where = fmt::format("{}: {}", escaped(file.path()), key);
  if (entry == nullptr) throw Error(where, "missing key", wanted);
  const List* list = std::get_if<List>(&entry->value);
  if (list == nullptr) throw Error(where, "wrong key type", wanted);
  return *list;
}

std::uint64_t pair_key(Token left, Token right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

ByteBpe::ByteBpe(const ModelFile& file) {
  read_vocabulary(file);
  read_merges(file);
}

void ByteBpe::read_vocabulary(const ModelFile& file) {
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
  const auto& texts = array_of<std::vector<std::string_view>>(file, "tokenizer.ggml.tokens", "an array of strings");
  types_.assign(texts.size(), TokenType::normal);
  if (file.find(kTypes) != nullptr) {
    const auto& types = array_of<std::vector<std::int64_t>>(file, kTypes, "an array of i32");
    if (types.size() != texts.size()) {
      throw Error(fmt::format("{}: {}", escaped(file.path()), kTypes), "array length mismatch",
                  fmt::format("{} entries", texts.size()));
    }
    std::ranges::transform(types, types_.begin(), [](std::int64_t type) { return static_cast<TokenType>(type); });
  }
  const ByteAlphabet alphabet;
  std::vector<bool> spelled(texts.size());
  starts_.push_back(0);
  for (std::size_t id = 0; id < texts.size(); ++id) {
    spelled[id] = types_[id] == TokenType::normal && alphabet.decode(texts[id], text_);
    if (!spelled[id]) text_.replace(starts_.back(), std::string::npos, texts[id]);  // special: its text is what it says
    starts_.push_back(text_.size());
  }
  by_bytes_.reserve(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (spelled[id]) by_bytes_.emplace(bytes(static_cast<Token>(id)), static_cast<Token>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char single = static_cast<char>(byte);
    byte_tokens_[static_cast<std::size_t>(byte)] = find(std::string_view(&single, 1));
  }
}

// A merge is written "left right" in the byte alphabet, where a space can't occur: exactly one space, and three known tokens.
void ByteBpe::read_merges(const ModelFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  const auto& lines = array_of<std::vector<std::string_view>>(file, kKey, "an array of strings");
  const ByteAlphabet alphabet;
  merges_.reserve(lines.size());
  std::string spelled;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const auto fail = [&](const char* problem) {
      throw Error(fmt::format("{}: {}", escaped(file.path()), kKey),
                  fmt::format("merge {} '{}' {}", i, escaped(line, 60), problem),
                  "two tokens, a space between them, that join to a token");
    };
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) fail("must hold one space");
    spelled.clear();
    if (!alphabet.decode(line.substr(0, space), spelled)) fail("is not in the byte alphabet");
    const std::size_t middle = spelled.size();
    if (!alphabet.decode(line.substr(space + 1), spelled)) fail("is not in the byte alphabet");
    const std::string_view whole = spelled;
    const Token left = find(whole.substr(0, middle)), right = find(whole.substr(middle)), both = find(whole);
    if (left < 0 || right < 0 || both < 0) fail("names a token that is not in the vocabulary");
    merges_.emplace(pair_key(left, right), Merge{static_cast<std::int32_t>(i), both});
  }
}

Token ByteBpe::find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  return found == by_bytes_.end() ? -1 : found->second;
}

const ByteBpe::Merge* ByteBpe::find_merge(Token left, Token right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void ByteBpe::encode(std::string_view piece, bool whole_pieces, Workspace& workspace, std::vector<Token>& tokens) const {
  if (whole_pieces) {
    if (const Token token = find(piece); token >= 0) return tokens.push_back(token);
  }
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  const auto length = static_cast<std::int32_t>(piece.size());
  symbols.clear();
  heap.clear();
  for (std::int32_t i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
    symbols.push_back({byte_token(byte), i - 1, i + 1 < length ? i + 1 : -1});
  }
  const auto add_candidate = [&](std::int32_t left) {  // true: the pair that begins at `left` can be merged
    if (left < 0 || symbols[left].next < 0) return false;
    const Token first = symbols[left].token, second = symbols[symbols[left].next].token;
    const Merge* merge = find_merge(first, second);
    if (merge != nullptr) heap.push_back({merge->rank, left, first, second, merge->result});
    return merge != nullptr;
  };
  for (std::int32_t i = 0; i < length; ++i) add_candidate(i);
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const auto best = heap.back();
    heap.pop_back();
    auto& left = symbols[best.symbol];
    const bool outdated = left.token != best.left || left.next < 0 || symbols[left.next].token != best.right;
    if (outdated) continue;  // one of the two was merged with another since
    auto& right = symbols[left.next];
    left.token = best.result;
    left.next = right.next;
    right.token = -1;
    if (left.next >= 0) symbols[left.next].previous = best.symbol;
    for (const std::int32_t neighbour : {left.previous, best.symbol}) {
      if (add_candidate(neighbour)) std::push_heap(heap.begin(), heap.end());
    }
  }
  for (std::int32_t i = length > 0 ? 0 : -1; i >= 0; i = symbols[i].next) tokens.push_back(symbols[i].token);
}

}  // namespace patchbay
