// Greedy decoding: the most likely token, every time.
#include "patchbay/decoder.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

class Greedy final : public Decoder {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Greedy(const Params&) {}

  Accepted accept(Sequence&, const Draft&, View<const float, 2> logits) override {
    return {{}, argmax(logits[0])};  // (G1)
  }
  Choice chooses() const override { return Choice::largest; }
  Accepted accept_chosen(Sequence&, const Draft&, std::span<const Token> chosen) override { return {{}, chosen[0]}; }
};

}  // namespace

PATCHBAY_PLUGIN(Decoder, Greedy, "greedy", "the most likely token, every time", "")
