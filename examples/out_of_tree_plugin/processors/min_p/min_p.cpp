#include <algorithm>
#include <cmath>
#include <limits>

#include "patchbay/plugin.h"
#include "patchbay/processor.h"

namespace patchbay {

class MinP : public LogitsProcessor {
 public:
  struct Params {
    double min_p = 0.1;
    void visit(Fields& f) { f.real("min_p", min_p, 0.001, 1.0, {"least likely token kept, relative to the likeliest"}); }
  };
  explicit MinP(const Params& params) : log_min_p_(static_cast<float>(std::log(params.min_p))) {}

  void apply(View<float, 1> logits) override {
    float best = logits[0];
    for (std::int64_t i = 0; i < logits.size(); ++i) best = std::max(best, logits[i]);
    for (std::int64_t i = 0; i < logits.size(); ++i)
      if (logits[i] < best + log_min_p_) logits[i] = -std::numeric_limits<float>::infinity();
  }

 private:
  float log_min_p_;
};

PATCHBAY_PLUGIN(LogitsProcessor, MinP, "min_p", "drops tokens far less likely than the likeliest", "arXiv:2407.01082")

}  // namespace patchbay
