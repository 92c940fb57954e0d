// SmoothQuant: what is hard to round in a layer's input goes over into its weights, channel by channel. Formulas (S1)...(S3): README.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "patchbay/group_scaling.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class SmoothQuant final : public Transform {
 public:
  struct Params {
    double alpha = 0.5;
    std::string folded_into = "all";
    void visit(Fields& f) {
      f.real("alpha", alpha, 0.0, 1.0, {"0 evens out the columns of the weights, 1 the channels of the input"});
      f.choice("folded_into", folded_into, {"norms", "all"},
               {"what takes the factors back: the norms before q, k, v, gate and up, as in the paper; or v before the output and up before down too"});
    }
  };
  explicit SmoothQuant(const Params& params) : params_(params) {}

  Needs needs() const override {
    Needs needs;
    needs.moments = true;
    return needs;
  }

  std::string apply(LinearGroup& group, Device&) const override {
    if (!is_quantized(group)) return {};
    if (group.norm_weight.size() == 0 && (params_.folded_into == "norms" || group.producer.empty())) return "not smoothed: no norm makes its input";
    if (group.statistics.largest.size() == 0) return "not smoothed: no calibration token came by";
    const std::int64_t cols = columns_of(group);
    std::vector<float> x(static_cast<std::size_t>(cols)), w = largest_weights(group);  // (S1)
    for (std::int64_t c = 0; c < cols; ++c) x[c] = group.statistics.largest[c];
    const float before = *std::max_element(x.begin(), x.end());
    std::vector<float> shared_x = x;
    share_largest(group, shared_x);
    share_largest(group, w);
    std::vector<float> factors(static_cast<std::size_t>(cols));
    float after = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      factors[c] = factor(shared_x[c], w[c]);
      after = std::max(after, x[c] / factors[c]);
    }
    scale_group(group, factors);  // (S3)
    char text[96];
    std::snprintf(text, sizeof text, "alpha %g, largest input %.3g to %.3g", params_.alpha, double{before}, double{after});
    return text;
  }

 private:
  /// Of each column, over all matrices that will be quantised.
  static std::vector<float> largest_weights(const LinearGroup& group) {
    std::vector<float> largest(static_cast<std::size_t>(columns_of(group)));
    for (const EditableMatrix& consumer : group.consumers) {
      if (!consumer.format) continue;
      for (std::int64_t r = 0; r < consumer.w.shape[0]; ++r)
        for (std::int64_t c = 0; c < consumer.w.shape[1]; ++c) largest[c] = std::max(largest[c], std::fabs(consumer.w(r, c)));
    }
    return largest;
  }

  /// (S2). A channel without inputs or without weights has nothing to even out.
  float factor(float x, float w) const {
    constexpr double kMost = 1e5;
    if (!(x > 0 && w > 0)) return 1.0f;
    return static_cast<float>(std::clamp(std::pow(double{x}, params_.alpha) / std::pow(double{w}, 1 - params_.alpha), 1 / kMost, kMost));
  }

  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Transform, SmoothQuant, "smoothquant", "evens out a layer's input channels by scaling its weights' columns",
                "Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models, ICML 2023 (arXiv:2211.10438)")

}  // namespace patchbay
