#include "quantize/finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

namespace patchbay {
namespace {

constexpr std::int64_t kRowsAtOnce = 64;

void require_finite(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor, Device& device) {
  const StoredRows stored(file, tensor);
  const std::int64_t rows = rows_of(tensor), cols = tensor.shape.at(0);
  std::atomic<std::int64_t> first = rows * cols;  // the first bad place, whichever thread finds one
  device.parallel_for(rows, kRowsAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> values(static_cast<std::size_t>(kRowsAtOnce * cols));
    for (std::int64_t row = begin; row < end; row += kRowsAtOnce) {
      const std::int64_t count = std::min(kRowsAtOnce, end - row);
      stored.read(row, View<float, 2>(values.data(), {count, cols}));
      const auto last = values.begin() + count * cols, bad = std::find_if(values.begin(), last, [](float value) { return !std::isfinite(value); });
      if (bad == last) continue;
      std::int64_t place = row * cols + (bad - values.begin()), known = first;
      while (place < known && !first.compare_exchange_weak(known, place)) {}
    }
  });
  if (first == rows * cols) return;
  throw Error("tensor " + std::string(tensor.name), fmt::format("row {}, column {} is NaN or infinite", first / cols, first % cols), "finite weights",
              "the file is damaged or its training failed: take another");
}

}  // namespace

void require_finite_weights(const std::shared_ptr<const ModelFile>& file, const WeightPlan& plan, Device& device) {
  for (const FileTensor* tensor : plan.tensors()) {
    require_finite(file, *tensor, device);
    file->release_pages();
  }
}

}  // namespace patchbay
