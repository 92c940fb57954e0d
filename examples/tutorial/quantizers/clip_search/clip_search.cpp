// clip_search: each row's range in a tile is the one, among a few narrower ones, with the least squared error. Formulas: README.md.
#include <algorithm>
#include <cmath>
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

/// One tile's codes under a grid, and each row's squared error.
struct Rounded {
  std::vector<std::int32_t> codes;  // column after column
  std::vector<double> loss;
};

class ClipSearch final : public Quantizer {
 public:
  struct Params {
    int steps = 8;
    void visit(Fields& f) { f.integer("steps", steps, 0, 19, {"narrower ranges tried, each 5% of the whole narrower"}); }
  };
  explicit ClipSearch(const Params& params) : steps_(params.steps) {}

  void quantize(View<const float, 2> w, const Statistics&, const WeightFormat& format, Device& device,
                PackedWeight& out) const override {
    const std::int64_t width = format.tile_columns(w.shape[1]);
    device.parallel_for(w.shape[1] / width, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t tile = begin; tile < end; ++tile) quantize_tile(w, tile * width, width, format, out);
    });
  }

 private:
  void quantize_tile(View<const float, 2> w, std::int64_t first_column, std::int64_t width, const WeightFormat& format,
                     PackedWeight& out) const {
    const std::int64_t rows = w.shape[0];
    const View<const float, 2> tile(w.data + first_column * w.strides[1], {rows, width}, w.strides);
    std::vector<float> ratio(rows, 1.0f);
    std::vector<double> least = round(tile, *format.fit(tile, {})).loss;
    for (int step = 1; step <= steps_; ++step) {
      const float narrower = 1.0f - 0.05f * static_cast<float>(step);
      const std::vector<float> cut = clipped(tile, std::vector<float>(rows, narrower));
      const Rounded tried = round(tile, *format.fit(View<const float, 2>(cut.data(), {rows, width}), {}));
      for (std::int64_t r = 0; r < rows; ++r) {  // (C2)
        if (tried.loss[r] < least[r]) ratio[r] = narrower;
        least[r] = std::min(least[r], tried.loss[r]);
      }
    }
    const std::vector<float> cut = clipped(tile, ratio);
    const auto grid = format.fit(View<const float, 2>(cut.data(), {rows, width}), {});
    Rounded best = round(tile, *grid);
    format.pack(*grid, first_column, View<const std::int32_t, 2>(best.codes.data(), {rows, width}, {1, rows}), out);
  }

  /// The tile with each row cut to its part of its largest magnitude. (C1)
  static std::vector<float> clipped(View<const float, 2> tile, const std::vector<float>& ratio) {
    std::vector<float> result(tile.size());
    for (std::int64_t r = 0; r < tile.shape[0]; ++r) {
      float largest = 0;
      for (std::int64_t c = 0; c < tile.shape[1]; ++c) largest = std::max(largest, std::abs(tile(r, c)));
      const float bound = largest * ratio[r];
      for (std::int64_t c = 0; c < tile.shape[1]; ++c) {
        const float value = tile(r, c);
        result[r * tile.shape[1] + c] = std::abs(value) > bound ? std::copysign(bound, value) : value;  // a NaN stays one
      }
    }
    return result;
  }

  static Rounded round(View<const float, 2> tile, const Grid& grid) {
    const std::int64_t rows = tile.shape[0];
    Rounded result{std::vector<std::int32_t>(tile.size()), std::vector<double>(rows)};
    std::vector<float> decoded(rows);
    for (std::int64_t c = 0; c < tile.shape[1]; ++c) {
      const View<const float, 1> column(tile.data + c * tile.strides[1], {rows}, {tile.strides[0]});
      grid.round(c, column, {result.codes.data() + c * rows, {rows}}, {decoded.data(), {rows}});
      for (std::int64_t r = 0; r < rows; ++r) result.loss[r] += std::pow(double{column[r]} - decoded[r], 2);
    }
    return result;
  }

  int steps_;
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, ClipSearch, "clip_search",
                "rounds to nearest in the range, cut or whole, with the least squared error", "")

}  // namespace patchbay
