#include "quantize/quantize_matrix.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "engine/weights.h"

namespace patchbay {

std::vector<float> decoded(const Linear& linear, Device& device) {
  const std::int64_t rows = linear.packed.rows, cols = linear.packed.cols;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  const View<float, 2> w(values.data(), {rows, cols});
  device.parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end, int) { linear.format->decode(linear.packed, begin, w.rows(begin, end)); });
  return values;
}

QuantizedMatrix quantize_matrix(const std::string& name, View<const float, 2> w, const Statistics& statistics, const Quantizer& quantizer,
                                const std::shared_ptr<WeightFormat>& format, Device& device) {
  try {
    const std::int64_t bad = std::find_if(w.data, w.data + w.size(), [](float value) { return !std::isfinite(value); }) - w.data;
    if (bad < w.size()) throw Error(fmt::format("row {}, column {}", bad / w.shape[1], bad % w.shape[1]), "the weight is NaN or infinite", "finite weights");
    QuantizedMatrix result;
    result.format = format;
    if (auto fitted = format->fitted_to(w, statistics)) result.format = std::move(fitted);
    result.packed = result.format->allocate(name, w.shape[0], w.shape[1], device);
    quantizer.quantize(w, statistics, *result.format, device, result.packed);
    result.note = std::move(result.packed.note);
    return result;
  } catch (const Error& error) {
    throw error.at(name);
  }
}

}  // namespace patchbay
