// Speculative decoding: a drafter guesses a few tokens, the model judges all of them in one pass, and what it would have said
// itself is kept. `accept` decides what "would have said" means: the same token (greedy), or the same distribution (sample).
#include <algorithm>

#include "patchbay/decoder.h"
#include "patchbay/drafter.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

/// The draft tokens that follow draft token `node` (-1: the sequence's last token), in order. A chain has at most one.
std::vector<std::int32_t> children_of(const Draft& draft, std::int32_t node) {
  std::vector<std::int32_t> children;
  for (std::size_t i = node + 1; i < draft.tokens.size(); ++i) {
    if (draft.parents[i] == node) children.push_back(static_cast<std::int32_t>(i));
  }
  return children;
}

/// Walks down the tree as long as a child is what argmax says: best(row) of the last token's row and each draft token's.
template <class Best>
Accepted accept_greedy(const Draft& draft, Best best) {
  Accepted accepted;
  std::int32_t node = -1;
  while (true) {
    accepted.next = best(node + 1);  // (P1)
    const auto children = children_of(draft, node);
    const auto kept = std::find_if(children.begin(), children.end(), [&](auto i) { return draft.tokens[i] == accepted.next; });
    if (kept == children.end()) return accepted;
    accepted.path.push_back(node = *kept);
  }
}

/// q of one draft token: the distribution that it was drawn from; all mass on the token itself when the drafter is certain.
class Proposal {
 public:
  Proposal(const Draft& draft, std::int32_t i, std::int64_t vocabulary) : token_(draft.tokens[i]) {
    if (!draft.probabilities.empty()) row_ = draft.probabilities.data() + i * vocabulary;
  }
  double operator[](Token token) const { return row_ ? row_[token] : token == token_ ? 1.0 : 0.0; }

 private:
  Token token_;
  const float* row_ = nullptr;
};

/// p becomes max(p - q, 0), normalised.                                                                           (P3)
void subtract(std::vector<double>& p, const Proposal& q) {
  double total = 0;
  for (std::size_t v = 0; v < p.size(); ++v) total += std::max(p[v] - q[static_cast<Token>(v)], 0.0);
  if (total <= 0) return;  // p equals q: only rounding can have led to a rejection, and p is right as it is
  for (std::size_t v = 0; v < p.size(); ++v) p[v] = std::max(p[v] - q[static_cast<Token>(v)], 0.0) / total;
}

/// Rejection sampling that leaves the distribution of the output what it would be without drafts.
Accepted accept_sample(const Draft& draft, View<const float, 2> logits, Rng& rng) {
  Accepted accepted;
  std::int32_t node = -1;
  while (true) {
    std::vector<double> p = softmax(logits[node + 1]);
    std::int32_t kept = -1;
    for (const std::int32_t i : children_of(draft, node)) {
      const Token guess = draft.tokens[i];
      const Proposal q(draft, i, logits.shape[1]);
      if (rng.uniform() * q[guess] < p[guess]) {  // (P2)
        kept = i;
        break;
      }
      subtract(p, q);
    }
    if (kept < 0) {
      accepted.next = draw(p, rng);  // (P4): what is left of p, or all of it where nothing was guessed
      return accepted;
    }
    accepted.path.push_back(node = kept);
  }
}

class Speculative final : public Decoder {
 public:
  struct Params {
    int k = 5;
    PluginSpec drafter{"lookup", nullptr};
    std::string accept = "greedy";
    void visit(Fields& f) {
      f.integer("k", k, 1, 64, {"most tokens guessed for one pass", "token"});
      f.plugin("drafter", drafter, "drafters", {"what guesses"});
      f.choice("accept", accept, {"greedy", "sample"},
               {"greedy: keep what argmax says; sample: rejection sampling, the output is distributed as without drafts"});
    }
  };
  explicit Speculative(const Params& params)
      : k_(params.k), sample_(params.accept == "sample"), drafter_(make<Drafter>(params.drafter)) {}

  std::vector<Draft> propose(std::span<Sequence* const> sequences, ModelRunner& target) override {
    return drafter_->draft(sequences, target, k_);
  }
  Accepted accept(Sequence& sequence, const Draft& draft, View<const float, 2> logits) override {
    const auto best = [&](std::int32_t row) { return argmax(logits[row]); };
    return told(sequence, draft, sample_ ? accept_sample(draft, logits, sequence.rng) : accept_greedy(draft, best));
  }
  Choice chooses() const override { return sample_ ? Choice::own : Choice::largest; }
  Accepted accept_chosen(Sequence& sequence, const Draft& draft, std::span<const Token> chosen) override {
    return told(sequence, draft, accept_greedy(draft, [&](std::int32_t row) { return chosen[row]; }));
  }

 private:
  /// The drafter learns what became of its draft.
  Accepted told(Sequence& sequence, const Draft& draft, const Accepted& accepted) {
    drafter_->accepted(sequence, draft, accepted);
    return accepted;
  }

  int k_;
  bool sample_;
  std::shared_ptr<Drafter> drafter_;
};

}  // namespace

PATCHBAY_PLUGIN(Decoder, Speculative, "speculative", "guesses several tokens, has them judged in one pass, keeps what agrees",
                "Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding")
