// Plants outliers: an equal model in which some channels of each norm's output are much larger than the rest, as in large language models.
// Formulas (O1), (O2): README.md.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "patchbay/group_scaling.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Outliers final : public Transform {
 public:
  struct Params {
    int count = 4;
    double factor = 30;
    int seed = 0;
    void visit(Fields& f) {
      f.integer("count", count, 0, 1 << 16, {"channels that become large, fewer than the model has: the same ones in all blocks"});
      f.real("factor", factor, 1.0, 1e6, {"by which they do"});
      f.integer("seed", seed, 0, 1 << 30, {"of the choice of channels"});
    }
  };
  explicit Outliers(const Params& params) : params_(params) {}

  std::string apply(LinearGroup& group, Device&) const override {
    if (group.norm_weight.size() == 0) return {};
    const std::int64_t cols = columns_of(group);
    if (params_.count >= cols)
      throw Error("outliers: count", std::to_string(params_.count) + " of " + std::to_string(cols) + " channels leave no ordinary one to stand out from", "0 to " + std::to_string(cols - 1),
                  "a handful, as in real models: 4");
    std::vector<float> factors(static_cast<std::size_t>(cols), 1.0f);
    const std::vector<std::int64_t> channels = chosen(cols);
    for (const std::int64_t c : channels) factors[c] = static_cast<float>(1 / params_.factor);  // (O1)
    scale_group(group, factors);                                                                // (O2)
    char text[64];
    std::snprintf(text, sizeof text, "%d channels made %g times larger", static_cast<int>(channels.size()), params_.factor);
    return text;
  }

 private:
  /// The first `count` (fewer than `cols`) of all channels in an order that the seed draws (Fisher and Yates).
  std::vector<std::int64_t> chosen(std::int64_t cols) const {
    std::vector<std::int64_t> channels(static_cast<std::size_t>(cols));
    for (std::int64_t c = 0; c < cols; ++c) channels[c] = c;
    const std::int64_t count = params_.count;
    std::mt19937 random(static_cast<std::uint32_t>(params_.seed));  // whose numbers the standard fixes
    for (std::int64_t i = 0; i < count; ++i) std::swap(channels[i], channels[i + random() % static_cast<std::uint32_t>(cols - i)]);
    channels.resize(static_cast<std::size_t>(count));
    return channels;
  }

  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Transform, Outliers, "outliers", "makes some channels of the norms' outputs large: an equal model that is hard for 8-bit activations", "")

}  // namespace patchbay
