// Prompt lookup: where the last few tokens stood before, what followed them then is the guess for what follows now.
#include <algorithm>
#include <unordered_map>

#include "patchbay/drafter.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

/// Where each n-gram of a text was last followed by something. Grows with the text: each token is entered once.
class NgramIndex {
 public:
  NgramIndex(int ngram_min, int ngram_max) : ngram_min_(ngram_min), ngram_max_(ngram_max) {}

  /// Takes in what is new of a text. A text that does not begin with the one known (the sequence is another now) starts afresh.
  void follow(const std::vector<Token>& text) {
    const bool goes_on = text.size() >= text_.size() && std::equal(text_.begin(), text_.end(), text.begin());
    if (!goes_on) *this = NgramIndex(ngram_min_, ngram_max_);
    for (std::size_t i = text_.size(); i < text.size(); ++i) {
      for (int n = ngram_min_; n <= ngram_max_ && n <= static_cast<std::int64_t>(i); ++n) next_[key(i, n)] = i;  // (L1)
      text_.push_back(text[i]);
    }
  }

  /// At most k tokens that followed the longest n-gram that ends the text, where it last stood; empty: it never did.
  std::vector<Token> guess(std::int64_t k) const {
    const std::size_t end = text_.size();
    for (int n = std::min<int>(ngram_max_, static_cast<int>(end)); n >= ngram_min_; --n) {  // (L2)
      const auto found = next_.find(key(end, n));
      if (found == next_.end() || !std::equal(text_.end() - n, text_.end(), text_.begin() + found->second - n)) continue;
      std::vector<Token> tokens;
      for (std::size_t at = found->second; static_cast<std::int64_t>(tokens.size()) < k; ++at) {  // (L3)
        tokens.push_back(at < end ? text_[at] : tokens[at - end]);
      }
      return tokens;
    }
    return {};
  }

 private:
  /// Hash of the n tokens before `end`, and of n. Two n-grams with one hash cost a guess, never a wrong one: guess() compares.
  std::uint64_t key(std::size_t end, int n) const {
    std::uint64_t hash = static_cast<std::uint64_t>(n) << 40;
    for (std::size_t i = end - n; i < end; ++i) {
      hash = (hash + static_cast<std::uint64_t>(text_[i]) + 1) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
    return hash;
  }

  int ngram_min_, ngram_max_;
  std::vector<Token> text_;
  std::unordered_map<std::uint64_t, std::size_t> next_;  // n-gram -> index of the token that followed it most recently
};

class Lookup final : public Drafter {
 public:
  struct Params {
    int ngram_max = 3, ngram_min = 2;
    void visit(Fields& f) {
      f.integer("ngram_max", ngram_max, 1, 16, {"longest n-gram looked up first", "token"});
      f.integer("ngram_min", ngram_min, 1, 16, {"shortest n-gram that is still trusted", "token"});
    }
    void check() const {
      if (ngram_min <= ngram_max) return;
      throw Error("lookup.ngram_min", std::to_string(ngram_min) + " is more than ngram_max = " + std::to_string(ngram_max),
                  "1 to " + std::to_string(ngram_max));
    }
  };
  explicit Lookup(const Params& params) : params_(params) {}

  std::vector<Draft> draft(std::span<Sequence* const> sequences, ModelRunner&, int k) override {
    std::unordered_map<SeqId, NgramIndex> known;  // the others have ended; their ids may come again for other texts
    std::vector<Draft> drafts;
    for (const Sequence* sequence : sequences) {
      auto node = indices_.extract(sequence->id);
      const auto index = node ? known.insert(std::move(node)).position
                              : known.emplace(sequence->id, NgramIndex(params_.ngram_min, params_.ngram_max)).first;
      index->second.follow(sequence->tokens);
      Draft draft;
      draft.tokens = index->second.guess(std::min<std::int64_t>(k, sequence->max_new_tokens - 1));
      for (std::size_t i = 0; i < draft.tokens.size(); ++i) draft.parents.push_back(static_cast<std::int32_t>(i) - 1);
      drafts.push_back(std::move(draft));
    }
    indices_ = std::move(known);
    return drafts;
  }

 private:
  Params params_;
  std::unordered_map<SeqId, NgramIndex> indices_;
};

}  // namespace

PATCHBAY_PLUGIN(Drafter, Lookup, "lookup", "copies what followed the last few tokens where they stood before",
                "Saxena 2023, Prompt Lookup Decoding")
