// Tile by tile: fit a grid, round each column, pack.
#include <vector>

#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

void round_tile(View<const float, 2> tile, std::int64_t first_column, const FitOptions& options, const WeightFormat& format, PackedWeight& out) {
  const std::int64_t rows = tile.shape[0], width = tile.shape[1];
  const auto grid = format.fit(tile, options);
  std::vector<std::int32_t> codes(rows * width);  // column after column
  std::vector<float> decoded(rows);
  for (std::int64_t c = 0; c < width; ++c) {
    const View<const float, 1> column(tile.data + c * tile.strides[1], {rows}, {tile.strides[0]});
    grid->round(c, column, {codes.data() + c * rows, {rows}}, {decoded.data(), {rows}});
  }
  format.pack(*grid, first_column, View<const std::int32_t, 2>(codes.data(), {rows, width}, {1, rows}), out);
}

}  // namespace

void round_to_nearest(View<const float, 2> w, const FitOptions& options, const WeightFormat& format, Device& device, PackedWeight& out) {
  const std::int64_t width = format.tile_columns(w.shape[1]);
  device.parallel_for(w.shape[1] / width, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t first = begin * width; first < end * width; first += width) {
      FitOptions of_tile = options;
      if (options.importance.shape[0] > 0)
        of_tile.importance = {options.importance.data + first * options.importance.strides[0], {width}, options.importance.strides};
      round_tile({w.data + first * w.strides[1], {w.shape[0], width}, w.strides}, first, of_tile, format, out);
    }
  });
}

}  // namespace patchbay
