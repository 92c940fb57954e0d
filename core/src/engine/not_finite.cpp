#include "engine/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace patchbay {
namespace {

bool all_finite(View<const float, 2> rows) {
  for (std::int64_t row = 0; row < rows.shape[0]; ++row) {
    float sum = 0;  // x * 0 is 0 for numbers and NaN for all else: no branch, so that the loop is one of vectors
    for (std::int64_t i = 0; i < rows.shape[1]; ++i) sum += rows(row, i) * 0.0f;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace

bool is_finite(const Step& step) {
  return std::ranges::find(step.drawn, -1) == step.drawn.end() && all_finite(step.logits) && all_finite(step.hidden);
}

void NotFiniteFinder::saw(std::string_view name, int layer, TensorRef tensor) {
  if (!where_.empty()) return;
  const auto* values = static_cast<const float*>(tensor.data);  // dense, as every probe gets it
  float largest = 0;
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (std::isfinite(values[i])) largest = std::max(largest, std::fabs(values[i]));
    else ++bad;
  }
  if (bad == 0) {
    largest_ = std::max(largest_, largest);
    return;
  }
  where_ = (layer < 0 ? "" : fmt::format("layer {}: ", layer)) + std::string(name);
  values_ = tensor.size();
  bad_ = bad;
}

Error NotFiniteFinder::error(DType activations) const {
  if (where_.empty()) return {"logits", "no token can be chosen: a logit is not a number, or every token is forbidden"};
  const std::string problem = fmt::format("{} of {} values are infinite or NaN, computed in {}; the largest number before was {:.4g}", bad_,
                                          values_, name_of(activations), largest_);
  if (activations == DType::f16)
    return {where_, problem, "up to 65504 in f16", "set backend.activations: bf16, which reaches as far as fp32"};
  return {where_, problem, {}, "the weights may be damaged: run patchbay check"};
}

}  // namespace patchbay
