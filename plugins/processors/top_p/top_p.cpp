// Top-p (nucleus): only the smallest set of tokens that holds the share p of the probability may come.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "patchbay/decoder.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

class TopP final : public LogitsProcessor {
 public:
  struct Params {
    double p = 0.95;
    void visit(Fields& f) {
      f.real("p", p, 0, 1, {"share of the probability that stays; 1 changes nothing, 0 leaves one token"});
    }
  };
  explicit TopP(const Params& params) : p_(params.p) {}

  void apply(View<float, 1> logits) override {
    const std::vector<double> probability = softmax(logits);
    if (p_ >= 1) return;
    heap_.resize(probability.size());
    std::iota(heap_.begin(), heap_.end(), 0);
    // A heap gives up its largest again and again: cheaper than sorting a vocabulary of which a few tokens stay.
    const auto less_likely = [&](Token a, Token b) {
      return probability[a] != probability[b] ? probability[a] < probability[b] : a > b;
    };
    std::make_heap(heap_.begin(), heap_.end(), less_likely);
    double cumulative = 0;
    auto rest = heap_.end();
    do {  // (N1)
      std::pop_heap(heap_.begin(), rest, less_likely);
      cumulative += probability[*--rest];
    } while (cumulative < p_ && rest != heap_.begin());
    for (auto token = heap_.begin(); token != rest; ++token) logits[*token] = -std::numeric_limits<float>::infinity();
  }
  bool add_to(TokenDraw& draw) const override {
    if (draw.top_p < 1) return false;  // a draw takes one p
    draw.top_p = p_;
    return true;
  }

 private:
  double p_;
  std::vector<Token> heap_;  // kept for its memory only
};

}  // namespace

PATCHBAY_PLUGIN(LogitsProcessor, TopP, "top_p", "only the smallest set of tokens with the share p of the probability may come",
                "Holtzman et al. 2020, The Curious Case of Neural Text Degeneration")
