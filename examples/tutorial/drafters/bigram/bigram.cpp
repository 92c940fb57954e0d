// bigram: what most often followed the last token in this text is the guess for what follows it now. Formulas: README.md.
#include <algorithm>
#include <map>

#include "patchbay/drafter.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

class Bigram final : public Drafter {
 public:
  struct Params {
    int least = 2;
    void visit(Fields& f) { f.integer("least", least, 1, 100, {"how often a pair must have stood in the text to be trusted"}); }
  };
  explicit Bigram(const Params& params) : least_(params.least) {}

  std::vector<Draft> draft(std::span<Sequence* const> sequences, ModelRunner&, int k) override {
    std::vector<Draft> drafts;
    for (const Sequence* sequence : sequences) {
      drafts.push_back(guess(*sequence, std::min<std::int64_t>(k, sequence->max_new_tokens - 1)));
    }
    return drafts;
  }

 private:
  Draft guess(const Sequence& sequence, std::int64_t k) const {
    std::map<Token, std::map<Token, int>> counts;  // (B1)
    const std::vector<Token>& text = sequence.tokens;
    for (std::size_t i = 1; i < text.size(); ++i) ++counts[text[i - 1]][text[i]];
    Draft draft;
    for (Token last = text.back(); static_cast<std::int64_t>(draft.tokens.size()) < k; last = draft.tokens.back()) {
      const auto& followers = counts[last];
      const auto best = std::max_element(followers.begin(), followers.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });  // (B2)
      if (best == followers.end() || best->second < least_) break;
      draft.parents.push_back(static_cast<std::int32_t>(draft.tokens.size()) - 1);
      draft.tokens.push_back(best->first);
    }
    return draft;
  }

  int least_;
};

}  // namespace

PATCHBAY_PLUGIN(Drafter, Bigram, "bigram", "guesses the token that most often followed the last one in this text", "")
