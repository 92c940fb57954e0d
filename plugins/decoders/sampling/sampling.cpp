// Sampling: a token drawn from the distribution that the model and the processors leave.
#include "patchbay/decoder.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

class Sampling final : public Decoder {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Sampling(const Params&) {}

  Accepted accept(Sequence& sequence, const Draft&, View<const float, 2> logits) override {
    return {{}, draw(softmax(logits[0]), sequence.rng)};  // (S1), (S2)
  }
  Choice chooses() const override { return Choice::draw; }
  Accepted accept_chosen(Sequence&, const Draft&, std::span<const Token> chosen) override { return {{}, chosen[0]}; }
};

}  // namespace

PATCHBAY_PLUGIN(Decoder, Sampling, "sampling", "a token drawn from the softmax of the processed logits", "")
