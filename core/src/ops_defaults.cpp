// The operations that a backend need not write itself: row by row as they are defined, sums in double.
#include <cmath>

#include "patchbay/backend.h"

namespace patchbay {

void Ops::layer_norm(TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out) {
  const auto in = x.as<const float, 2>();
  const auto factors = weight.as<const float, 1>(), offsets = bias.as<const float, 1>();
  const auto target = out.as<float, 2>();
  const std::int64_t cols = in.shape[1];
  for (std::int64_t t = 0; t < in.shape[0]; ++t) {
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += in(t, c);
    const double mean = sum / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) squares += (in(t, c) - mean) * (in(t, c) - mean);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(cols) + epsilon);
    for (std::int64_t c = 0; c < cols; ++c) {
      target(t, c) = static_cast<float>((in(t, c) - mean) * inverse) * factors[c] + offsets[c];
    }
  }
}

void Ops::scale(TensorRef x, float factor) {
  const auto values = x.as<float, 2>();
  for (std::int64_t t = 0; t < values.shape[0]; ++t) {
    for (std::int64_t c = 0; c < values.shape[1]; ++c) values(t, c) *= factor;
  }
}

void Ops::soft_cap(TensorRef x, float cap) {
  const auto values = x.as<float, 2>();
  for (std::int64_t t = 0; t < values.shape[0]; ++t) {
    for (std::int64_t c = 0; c < values.shape[1]; ++c) values(t, c) = cap * std::tanh(values(t, c) / cap);
  }
}

}  // namespace patchbay
