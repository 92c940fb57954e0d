// The unigram language model (Kudo 2018, "Subword regularization"): of all ways to cut a piece into tokens, the one whose log
// probabilities sum to the most, found by dynamic programming over the positions (Viterbi).
#include <algorithm>
#include <limits>

#include "tokenizer/model.h"
#include "tokenizer/trie.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr double kUnknownPenalty = 10;  // an unknown character costs this more than the least likely token: SentencePiece's constant

class Unigram : public TokenModel {
 public:
  Unigram(UnigramDescription description, const Vocabulary& vocabulary) : options_(std::move(description)), vocabulary_(vocabulary) {
    std::vector<Trie::Key> keys;
    double lowest = std::numeric_limits<double>::max();
    for (Token token = 0; token < vocabulary.size(); ++token) {
      lowest = std::min(lowest, options_.scores[static_cast<std::size_t>(token)]);
      if (vocabulary.type(token) == TokenType::normal) keys.push_back({std::string(vocabulary.text(token)), token});
    }
    trie_ = Trie(std::move(keys));
    unknown_score_ = options_.sums_in_float ? static_cast<float>(lowest - kUnknownPenalty) : lowest - kUnknownPenalty;
  }

  std::unique_ptr<Workspace> workspace() const override { return std::make_unique<Space>(); }

  void encode(std::string_view piece, Workspace& workspace, std::vector<Token>& tokens) const override {
    Space& space = static_cast<Space&>(workspace);
    space.cache.append(piece, tokens, [&](std::vector<Token>& out) {
      find_best(piece, space.best);
      append_path(piece, space, out);
    });
  }

  void encode_unknown(std::string_view bytes, std::vector<Token>& tokens) const override {
    append_unknown(vocabulary_, bytes, options_.byte_fallback, options_.unknown, tokens);
  }

 private:
  static constexpr Token kUnknown = -1, kUnreached = -2;
  /// The best way to cut the text up to some position: its score, and its last token.
  struct Best { double score; std::int32_t begin; Token token; };
  struct Space : Workspace {
    std::vector<Best> best;
    std::vector<std::int32_t> ends;
    PieceCache cache;
  };

  void find_best(std::string_view piece, std::vector<Best>& best) const {
    best.assign(piece.size() + 1, {0, 0, kUnreached});
    const auto offer = [&](std::size_t begin, std::size_t end, Token token, double score) {
      Best& present = best[end];
      score += best[begin].score;
      if (options_.sums_in_float) score = static_cast<float>(score);
      if (present.token == kUnreached || score > present.score) present = {score, static_cast<std::int32_t>(begin), token};
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view rest = piece.substr(at);
      const std::size_t character = first_utf8_unit(rest).bytes;
      bool has_character = false;
      trie_.prefixes(rest, [&](std::size_t length, Token token) {
        offer(at, at + length, token, options_.scores[static_cast<std::size_t>(token)]);
        has_character |= length == character;
      });
      if (!has_character) offer(at, at + character, kUnknown, unknown_score_);
      at += character;
    }
  }

  /// The tokens of the best path; neighbouring unknown characters are one.
  void append_path(std::string_view piece, Space& space, std::vector<Token>& tokens) const {
    space.ends.clear();
    for (auto end = static_cast<std::int32_t>(piece.size()); end > 0; end = space.best[end].begin) space.ends.push_back(end);
    std::ranges::reverse(space.ends);
    for (std::size_t i = 0; i < space.ends.size(); ++i) {
      const Best& step = space.best[space.ends[i]];
      if (step.token != kUnknown) {
        tokens.push_back(step.token);
        continue;
      }
      while (i + 1 < space.ends.size() && space.best[space.ends[i + 1]].token == kUnknown) ++i;
      encode_unknown(piece.substr(static_cast<std::size_t>(step.begin), static_cast<std::size_t>(space.ends[i] - step.begin)), tokens);
    }
  }

  UnigramDescription options_;
  const Vocabulary& vocabulary_;
  Trie trie_;
  double unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(UnigramDescription description, const Vocabulary& vocabulary) {
  return std::make_unique<Unigram>(std::move(description), vocabulary);
}

}  // namespace patchbay
