// Byte-pair encoding (Sennrich et al. 2016): a piece starts as one token per character, and the pair that was learnt first is merged
// until none is left. Over the byte alphabet this is GPT-2's byte-level BPE; over plain characters, with ranks from scores, SentencePiece's.
#include <algorithm>
#include <array>

#include "tokenizer/model.h"
#include "utf8.h"

namespace patchbay {
namespace {

class Bpe : public TokenModel {
 public:
  Bpe(BpeDescription description, const Vocabulary& vocabulary) : options_(std::move(description)), vocabulary_(vocabulary) {
    merges_.reserve(options_.merges.size());
    for (const BpeMerge& merge : options_.merges) merges_.insert_or_assign(pair_key(merge.left, merge.right), Merge{merge.rank, merge.result});
    options_.merges = std::vector<BpeMerge>();
    for (char32_t c = 0; c < small_.size(); ++c) {
      std::string text;
      append_utf8(text, c);
      small_[c] = vocabulary.find(text);
    }
  }

  std::unique_ptr<Workspace> workspace() const override { return std::make_unique<Space>(); }

  void encode(std::string_view piece, Workspace& workspace, std::vector<Token>& tokens) const override {
    if (options_.whole_pieces) {
      if (const Token token = vocabulary_.find(piece); token >= 0) return tokens.push_back(token);
    }
    Space& space = static_cast<Space&>(workspace);
    space.cache.append(piece, tokens, [&](std::vector<Token>& out) {
      first_symbols(piece, space);
      merge_all(space);
      for (std::int32_t i = space.symbols.empty() ? -1 : 0; i >= 0; i = space.symbols[i].next) out.push_back(space.symbols[i].token);
    });
  }

  void encode_unknown(std::string_view bytes, std::vector<Token>& tokens) const override {
    append_unknown(vocabulary_, bytes, options_.byte_fallback, options_.unknown, tokens);
  }

 private:
  struct Merge { std::int32_t rank; Token result; };
  /// A doubly linked list; token -1: merged into its left neighbour.
  struct Symbol { Token token; std::int32_t previous, next; };
  struct Candidate {
    std::int32_t rank, symbol;  ///< symbol: index of the left one
    Token left, right, result;
    /// Orders a heap: earliest merge on top, leftmost among equals.
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : symbol > other.symbol; }
  };
  struct Space : Workspace {
    std::vector<Token> first;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    PieceCache cache;
  };

  static std::uint64_t pair_key(Token left, Token right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }

  /// A character as the vocabulary writes it.
  std::string written(std::string_view bytes, bool is_first, bool is_last) const {
    return (is_first ? "" : options_.continuing_prefix) + std::string(bytes) + (is_last ? options_.end_suffix : "");
  }

  void first_symbols(std::string_view piece, Space& space) const {
    std::vector<Token>& first = space.first;
    first.clear();
    const bool plain = options_.continuing_prefix.empty() && options_.end_suffix.empty();
    bool unknown_before = false;
    for (std::size_t at = 0; at < piece.size();) {
      const Utf8Unit unit = first_utf8_unit(piece.substr(at));
      const std::string_view bytes = piece.substr(at, unit.bytes);
      const bool is_first = at == 0, is_last = at + unit.bytes == piece.size();
      at += unit.bytes;
      const Token token = !plain                               ? vocabulary_.find(written(bytes, is_first, is_last))
                          : unit.code_point < small_.size() ? small_[unit.code_point]
                                                            : vocabulary_.find(bytes);
      const bool known = token >= 0 || (options_.byte_fallback && append_byte_tokens(vocabulary_, written(bytes, is_first, is_last), first));
      if (token >= 0) first.push_back(token);
      if (!known) {
        if (options_.unknown < 0) throw MissingCharacter{std::string(bytes)};
        if (!(unknown_before && options_.fuse_unknown)) first.push_back(options_.unknown);
      }
      unknown_before = !known;
    }
    space.symbols.clear();
    const auto count = static_cast<std::int32_t>(first.size());
    for (std::int32_t i = 0; i < count; ++i) space.symbols.push_back({first[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }

  void merge_all(Space& space) const {
    std::vector<Symbol>& symbols = space.symbols;
    std::vector<Candidate>& heap = space.heap;
    heap.clear();
    const auto add_candidate = [&](std::int32_t left) {  // true: the pair that begins at `left` can be merged
      if (left < 0 || symbols[left].next < 0) return false;
      const Token first = symbols[left].token, second = symbols[symbols[left].next].token;
      const auto found = merges_.find(pair_key(first, second));
      if (found == merges_.end()) return false;
      heap.push_back({found->second.rank, left, first, second, found->second.result});
      return true;
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) add_candidate(static_cast<std::int32_t>(i));
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.symbol];
      const bool outdated = left.token != best.left || left.next < 0 || symbols[left.next].token != best.right;
      if (outdated) continue;  // one of the two was merged with another since
      Symbol& right = symbols[left.next];
      left.token = best.result;
      left.next = right.next;
      right.token = -1;
      if (left.next >= 0) symbols[left.next].previous = best.symbol;
      for (const std::int32_t neighbour : {left.previous, best.symbol}) {
        if (add_candidate(neighbour)) std::push_heap(heap.begin(), heap.end());
      }
    }
  }

  BpeDescription options_;  ///< without the merges
  const Vocabulary& vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  ///< by left and right
  std::array<Token, 0x180> small_{};                 ///< the tokens of the first characters, the byte alphabet among them
};

}  // namespace

std::unique_ptr<TokenModel> make_bpe(BpeDescription description, const Vocabulary& vocabulary) {
  return std::make_unique<Bpe>(std::move(description), vocabulary);
}

}  // namespace patchbay
