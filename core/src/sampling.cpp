// Choosing a token from one row of logits: what all decoders share.
#include <cmath>
#include <limits>
#include <string>

#include "failures.h"
#include "patchbay/decoder.h"

namespace patchbay {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

[[noreturn]] void fail_nan(std::int64_t index) {
  throw Error("logits", "the logit of token " + std::to_string(index) + " is not a number", "", kLogitsRemedy);
}

[[noreturn]] void fail_all_forbidden() {
  throw Error("logits", "every token is forbidden (all logits are -inf)", "", "loosen the processors: one token must stay");
}

}  // namespace

Token argmax(View<const float, 1> logits) {
  Token best = -1;
  float highest = kNone;
  for (std::int64_t i = 0; i < logits.shape[0]; ++i) {
    const float logit = logits[i];
    if (logit != logit) fail_nan(i);
    if (logit > highest) {
      highest = logit;
      best = static_cast<Token>(i);
    }
  }
  if (best < 0) fail_all_forbidden();
  return best;
}

std::vector<double> softmax(View<const float, 1> logits) {
  const double highest = logits[argmax(logits)];
  std::vector<double> probabilities(logits.shape[0]);
  double total = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    // A logit of +inf takes all the mass: inf - inf is not a number.
    const double logit = logits[static_cast<std::int64_t>(i)];
    total += probabilities[i] = logit == highest ? 1.0 : std::exp(logit - highest);
  }
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

Token draw(std::span<const double> weights, Rng& rng) {
  double total = 0;
  for (const double weight : weights) total += weight;
  if (!(total > 0) || std::isinf(total)) {
    throw Error("draw", "the weights sum to " + std::to_string(total), "a finite sum above 0");
  }
  const double target = rng.uniform() * total;
  double cumulative = 0;
  Token last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    cumulative += weights[i];
    last = static_cast<Token>(i);
    if (target < cumulative) break;
  }
  return last;  // also where rounding let the target reach the sum
}

}  // namespace patchbay
