// Round to nearest on scales that were searched: each group's error, perhaps weighted by its inputs' size, is made small before its
// weights are rounded. Formulas (F1)...(F9): README.md; the search itself is the formats' (patchbay/scale_search.h).
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

class ScaleSearch final : public Quantizer {
 public:
  struct Params {
    std::string importance = "none";
    void visit(Fields& f) {
      f.choice("importance", importance, {"none", "calibration"},
               {"weighs each column's error: all alike, or by the mean square of its input (the importance matrix of GGUF files)"});
    }
  };
  explicit ScaleSearch(const Params& params) : params_(params) {}

  Needs needs() const override { return {.moments = params_.importance == "calibration"}; }

  void quantize(View<const float, 2> w, const Statistics& statistics, const WeightFormat& format, Device& device,
                PackedWeight& out) const override {
    FitOptions options{.search = true};  // (F1)...(F8)
    // Empty where no token came by (an expert that was never chosen): all columns alike.
    if (needs().moments) options.importance = statistics.second_moment;
    round_to_nearest(w, options, format, device, out);  // (F9)
  }

 private:
  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, ScaleSearch, "scale_search", "rounds to nearest, on scales of least squared error instead of covering ones",
                "ggml: quantisers of the K-quants and the importance matrix (llama.cpp)")

}  // namespace patchbay
