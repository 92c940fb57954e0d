// Temperature: logits divided by a number, which sharpens (below 1) or flattens (above 1) the distribution.
#include "patchbay/plugin.h"
#include "patchbay/processor.h"

namespace {

using namespace patchbay;

class Temperature final : public LogitsProcessor {
 public:
  struct Params {
    double value = 0.8;
    void visit(Fields& f) {
      f.real("value", value, 0.001, 100, {"logits are divided by it; 1 changes nothing, for 0 there is decoder greedy"});
    }
  };
  explicit Temperature(const Params& params) : value_(static_cast<float>(params.value)) {}

  void apply(View<float, 1> logits) override {
    for (std::int64_t v = 0; v < logits.shape[0]; ++v) logits[v] /= value_;  // (T1)
  }
  bool add_to(TokenDraw& draw) const override {
    if (draw.temperature != 1 || draw.top_k != 0 || draw.top_p < 1) return false;  // a draw takes one temperature, first of all
    draw.temperature = value_;
    return true;
  }

 private:
  float value_;
};

}  // namespace

PATCHBAY_PLUGIN(LogitsProcessor, Temperature, "temperature", "divides the logits: below 1 bolder, above 1 more varied", "")
