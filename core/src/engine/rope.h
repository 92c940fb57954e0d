/// @file rope.h
/// Rotary position embedding: how a model's scaling becomes angles, and the turning of a step's rows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_spec.h"

namespace patchbay {

/// base^(-2i/dims) for each of the dims/2 pairs (Su et al. 2021).
PATCHBAY_API std::vector<double> plain_frequencies(double base, int dims);
/// Scalings stretch a trained context; each changes `frequencies` in place. Linear (Chen et al. 2023): positions divided by
/// factor.
PATCHBAY_API void scale_linear(std::vector<double>& frequencies, double factor);
struct Yarn { double factor = 1, original_context = 0, beta_fast = 32, beta_slow = 1; bool truncate = true; };
/// YaRN (Peng et al. 2023): pairs that turn more than beta_fast times within the original context keep their angle, those that
/// turn less than beta_slow times are divided by factor, between them a ramp.
PATCHBAY_API void scale_yarn(std::vector<double>& frequencies, double base, const Yarn& yarn);
/// What YaRN multiplies the turned values by: 0.1 ln(factor) + 1.
PATCHBAY_API double yarn_magnitude(double factor);
struct Llama3Scaling { double factor = 1, low = 1, high = 4, original_context = 0; };
/// Llama 3.1: wavelengths above original/low are divided by factor, those below original/high kept, a blend between.
PATCHBAY_API void scale_llama3(std::vector<double>& frequencies, const Llama3Scaling& scaling);
/// LongRoPE (Ding et al. 2024): one divisor per pair. Its magnitude: sqrt(1 + ln(factor) / ln(original)).
PATCHBAY_API void divide(std::vector<double>& frequencies, std::span<const float> divisors);
PATCHBAY_API double long_rope_magnitude(double factor, double original_context);
/// Dynamic NTK (bloc97 and emozilla 2023): past the original context the base grows with the length. out(dims/2).
PATCHBAY_API void dynamic_frequencies(const Rope& rope, double length, std::span<float> out);
PATCHBAY_API std::vector<float> rounded(const std::vector<double>& frequencies);

/// The angles by which the heads of a step's rows turn. They depend on the position alone: they are computed once, on the host, as far as
/// sequences have come, and lie where the device reads them. With dynamic NTK each row goes by the length up to itself, as in a
/// model that decodes token by token, so that no row depends on how rows are batched.
class RotaryEmbedding {
 public:
  RotaryEmbedding(const Rope& rope, std::int64_t max_tokens, Ops& ops);
  /// Once per step, before spec().
  void prepare(std::span<const std::int32_t> positions);
  /// Of the device's operations; valid until the next prepare().
  RopeSpec spec() const;

 private:
  void compute(std::int64_t position, float* angles) const;

  const Rope& rope_;
  Ops& ops_;
  std::int64_t max_tokens_, known_ = 0;  ///< positions, and those with angles
  std::vector<float> angles_;            ///< (known, dims): see RopeSpec
  Buffer on_device_;                     ///< (max_tokens, dims) on a GPU
};

}  // namespace patchbay
