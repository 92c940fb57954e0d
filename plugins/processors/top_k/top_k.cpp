// Top-k: only the k most likely tokens may come.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "patchbay/decoder.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

class TopK final : public LogitsProcessor {
 public:
  struct Params {
    int k = 40;
    void visit(Fields& f) { f.integer("k", k, 1, 1 << 24, {"how many tokens stay", "token"}); }
  };
  explicit TopK(const Params& params) : k_(params.k) {}

  void apply(View<float, 1> logits) override {
    argmax(logits);  // refuses what cannot be ordered (NaN), and a row without any token left
    if (k_ >= logits.shape[0]) return;
    order_.resize(logits.shape[0]);
    std::iota(order_.begin(), order_.end(), 0);
    // Linear time: the k first come to the front, in no order among themselves.
    std::nth_element(order_.begin(), order_.begin() + k_, order_.end(), [&](Token a, Token b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;  // (K1)
    });
    for (auto token = order_.begin() + k_; token != order_.end(); ++token) {
      logits[*token] = -std::numeric_limits<float>::infinity();
    }
  }
  bool add_to(TokenDraw& draw) const override {
    if (draw.top_k != 0 || draw.top_p < 1) return false;  // a draw takes one k, before p
    draw.top_k = k_;
    return true;
  }

 private:
  int k_;
  std::vector<Token> order_;  // kept for its memory only
};

}  // namespace

PATCHBAY_PLUGIN(LogitsProcessor, TopK, "top_k", "only the k most likely tokens may come",
                "Fan et al. 2018, Hierarchical Neural Story Generation")
