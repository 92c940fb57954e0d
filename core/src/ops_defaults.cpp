// The operations that a backend need not write itself: row by row as they are defined, sums in double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/half.h"

namespace patchbay {
namespace {

float to_float(float value) { return value; }

/// Rows first_row and on of w, which may lie at any byte.
template <class T>
void convert_rows(const TensorRef& w, std::int64_t first_row, View<float, 2> out) {
  for (std::int64_t r = 0; r < out.shape[0]; ++r) {
    const std::byte* row = static_cast<const std::byte*>(w.data) + (first_row + r) * w.strides[0] * std::int64_t{sizeof(T)};
    for (std::int64_t c = 0; c < out.shape[1]; ++c) {
      T element;
      std::memcpy(&element, row + c * std::int64_t{sizeof(T)}, sizeof(T));
      out(r, c) = to_float(element);
    }
  }
}

void convert_rows(const TensorRef& w, std::int64_t first_row, View<float, 2> out, const char* operation) {
  if (w.dtype == DType::f16) return convert_rows<Half>(w, first_row, out);
  if (w.dtype == DType::bf16) return convert_rows<BFloat16>(w, first_row, out);
  if (w.dtype == DType::f32 && out.strides[1] == 1) {
    const std::int64_t bytes = out.shape[1] * bytes_of(DType::f32);
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      const auto* row = static_cast<const std::byte*>(w.data) + (first_row + r) * w.strides[0] * bytes_of(DType::f32);
      std::memcpy(&out(r, 0), row, static_cast<std::size_t>(bytes));
    }
    return;
  }
  if (w.dtype == DType::f32) return convert_rows<float>(w, first_row, out);
  throw Error(operation, "rows of another type", "f32, f16, bf16");
}

}  // namespace

void Ops::matmul_stored(TensorRef x, TensorRef w, TensorRef y) {
  const auto rows = [&w](std::int64_t first_row, View<float, 2> out) { convert_rows(w, first_row, out, "matmul_stored"); };
  host().matmul_decoded(x, w.shape[0], rows, y);
}

void Ops::take_rows(TensorRef table, TensorRef ids, TensorRef out) {
  const auto chosen = ids.as<const std::int32_t, 1>();
  const auto rows = out.as<float, 2>();
  for (std::int64_t t = 0; t < rows.shape[0]; ++t) convert_rows(table, chosen[t], rows.rows(t, t + 1), "take_rows");
}

void Ops::add_rows(TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows) {
  const auto target = x.as<float, 2>();
  const auto added = rows.as<const float, 2>();
  const auto chosen = ids.as<const std::int32_t, 1>();
  const auto times = factors.as<const float, 1>();
  for (std::int64_t t = 0; t < added.shape[0]; ++t) {
    const auto row = target[chosen[t]];
    for (std::int64_t c = 0; c < added.shape[1]; ++c) row[c] += times[t] * added(t, c);
  }
}

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

void Ops::add_rms_norm(TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out) {
  add(x, y);
  rms_norm(x, weight, epsilon, out);
}

void Ops::rope_write_kv(TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec, const GpuStep& step, int layer) {
  rope(q, positions, spec);
  rope(k, positions, spec);
  write_kv(k, v, step, layer);
}

void Ops::softmax(TensorRef x, TensorRef out) {
  const auto in = x.as<const float, 2>();
  const auto shares = out.as<float, 2>();
  std::vector<double> weights(static_cast<std::size_t>(in.shape[1]));
  for (std::int64_t t = 0; t < in.shape[0]; ++t) {
    const float* const row = &in(t, 0);
    const double largest = *std::max_element(row, row + in.shape[1]);
    double sum = 0;
    for (std::int64_t c = 0; c < in.shape[1]; ++c) sum += weights[c] = std::exp(in(t, c) - largest);
    for (std::int64_t c = 0; c < in.shape[1]; ++c) shares(t, c) = static_cast<float>(weights[c] / sum);
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
