#include "engine/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace patchbay {

std::vector<double> plain_frequencies(double base, int dims) {
  std::vector<double> frequencies(dims / 2);
  for (int i = 0; i < dims / 2; ++i) frequencies[i] = std::pow(base, -2.0 * i / dims);
  return frequencies;
}

void scale_linear(std::vector<double>& frequencies, double factor) {
  for (double& frequency : frequencies) frequency /= factor;
}

void scale_yarn(std::vector<double>& frequencies, double base, const Yarn& yarn) {
  const double dims = 2.0 * static_cast<double>(frequencies.size());
  // The pair (a real number) that turns `turns` times within the original context.
  const auto pair_of = [&](double turns) {
    return dims * std::log(yarn.original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pair_of(yarn.beta_fast), high = pair_of(yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / yarn.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

double yarn_magnitude(double factor) { return factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0; }

void scale_llama3(std::vector<double>& frequencies, const Llama3Scaling& scaling) {
  for (double& frequency : frequencies) {
    const double turns = scaling.original_context * frequency / (2 * std::numbers::pi);  // within the original context
    const double kept = std::clamp((turns - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0);
    frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
}

void divide(std::vector<double>& frequencies, std::span<const float> divisors) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= divisors[i];
}

double long_rope_magnitude(double factor, double original_context) {
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original_context));
}

void dynamic_frequencies(const Rope& rope, double length, std::span<float> out) {
  const double dims = rope.dims, factor = rope.dynamic_factor, original = static_cast<double>(rope.original_context);
  const double stretch = factor * std::max(length, original) / original - (factor - 1);
  const double base = rope.base * std::pow(stretch, dims / (dims - 2));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(std::pow(base, -2.0 * static_cast<double>(i) / dims));
}

std::vector<float> rounded(const std::vector<double>& frequencies) { return {frequencies.begin(), frequencies.end()}; }

RotaryEmbedding::RotaryEmbedding(const Rope& rope, std::int64_t max_tokens, Ops& ops)
    : rope_(rope), ops_(ops), max_tokens_(max_tokens) {}

void RotaryEmbedding::compute(std::int64_t position, float* angles) const {
  const std::size_t pairs = rope_.frequencies.size();
  std::vector<float> stretched;
  if (rope_.dynamic_factor != 0 && position >= rope_.original_context) {
    stretched.resize(pairs);
    dynamic_frequencies(rope_, static_cast<double>(position) + 1.0, stretched);
  }
  const std::vector<float>& frequencies = stretched.empty() ? rope_.frequencies : stretched;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];  // in float, far positions lose digits
    angles[i] = static_cast<float>(std::cos(angle) * rope_.magnitude);
    angles[pairs + i] = static_cast<float>(std::sin(angle) * rope_.magnitude);
  }
}

void RotaryEmbedding::prepare(std::span<const std::int32_t> positions) {
  constexpr std::int64_t kStep = 64;  // positions that are computed together
  std::int64_t end = known_;
  for (const std::int32_t position : positions) end = std::max<std::int64_t>(end, position + 1);
  if (end <= known_) return;
  end = std::min((end + kStep - 1) / kStep * kStep, std::max(max_tokens_, end));
  const std::int64_t first = known_, dims = 2 * static_cast<std::int64_t>(rope_.frequencies.size());
  angles_.resize(static_cast<std::size_t>(end * dims));
  ops_.device().parallel_for(end - first, kStep, [&](std::int64_t from, std::int64_t to, int) {
    for (std::int64_t i = first + from; i < first + to; ++i) compute(i, angles_.data() + i * dims);
  });
  known_ = end;
  Device& device = ops_.device();
  if (device.is_host()) return;
  if (on_device_.size() == 0) on_device_ = device.allocate(max_tokens_ * dims * bytes_of(DType::f32));
  device.copy(View<const float, 2>(angles_.data() + first * dims, {end - first, dims}),
              on_device_.tensor(DType::f32, {max_tokens_, dims}).rows(first, end));
}

RopeSpec RotaryEmbedding::spec() const {
  const std::int64_t dims = 2 * static_cast<std::int64_t>(rope_.frequencies.size());
  const TensorRef angles = ops_.device().is_host() ? TensorRef(View<const float, 2>(angles_.data(), {known_, dims}))
                                                   : on_device_.tensor(DType::f32, {max_tokens_, dims});
  return {rope_.dims, rope_.interleaved, angles};
}

}  // namespace patchbay
