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

RotaryEmbedding::RotaryEmbedding(const Rope& rope, Ops& ops) : rope_(rope), ops_(ops) {}

void RotaryEmbedding::prepare(std::span<const std::int32_t> positions) {
  if (rope_.dynamic_factor == 0) return;
  const std::size_t pairs = rope_.frequencies.size();
  dynamic_.resize(positions.size() * pairs);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    if (positions[row] < rope_.original_context) continue;
    dynamic_frequencies(rope_, positions[row] + 1.0, std::span(dynamic_).subspan(row * pairs, pairs));
  }
}

void RotaryEmbedding::apply(View<float, 3> x, std::span<const std::int32_t> positions) const {
  const auto turn = [&](std::int64_t begin, std::int64_t end, const float* frequencies) {
    if (begin == end) return;
    ops_.rope(x.rows(begin, end), positions.subspan(begin, end - begin), {rope_.dims, rope_.interleaved, frequencies, rope_.magnitude});
  };
  const auto rows = static_cast<std::int64_t>(positions.size());
  if (rope_.dynamic_factor == 0) return turn(0, rows, rope_.frequencies.data());
  std::int64_t begin = 0;  // of the rows within the original context that were not turned yet
  for (std::int64_t row = 0; row < rows; ++row) {
    if (positions[row] < rope_.original_context) continue;
    turn(begin, row, rope_.frequencies.data());
    turn(row, row + 1, dynamic_.data() + row * static_cast<std::int64_t>(rope_.frequencies.size()));
    begin = row + 1;
  }
  turn(begin, rows, rope_.frequencies.data());
}

}  // namespace patchbay
