// Round to nearest: every weight gets the closest number its format has. The baseline of all quantizers. Formula (R1): README.md.
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

class Rtn final : public Quantizer {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Rtn(const Params&) {}

  /// Tiles share nothing, so each is quantised on its own, on any thread.
  void quantize(View<const float, 2> w, const Statistics&, const WeightFormat& format, Device& device,
                PackedWeight& out) const override {
    const std::int64_t width = format.tile_columns(w.shape[1]);
    device.parallel_for(w.shape[1] / width, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t tile = begin; tile < end; ++tile) quantize_tile(w, tile * width, width, format, out);
    });
  }

 private:
  static void quantize_tile(View<const float, 2> w, std::int64_t first_column, std::int64_t width, const WeightFormat& format,
                            PackedWeight& out) {
    const std::int64_t rows = w.shape[0];
    const View<const float, 2> tile(w.data + first_column * w.strides[1], {rows, width}, w.strides);
    const auto grid = format.fit(tile, {});
    std::vector<std::int32_t> codes(rows * width);  // column after column
    std::vector<float> decoded(rows);
    for (std::int64_t c = 0; c < width; ++c) {
      const View<const float, 1> column(tile.data + c * tile.strides[1], {rows}, {tile.strides[0]});
      grid->round(c, column, {codes.data() + c * rows, {rows}}, {decoded.data(), {rows}});  // (R1)
    }
    format.pack(*grid, first_column, View<const std::int32_t, 2>(codes.data(), {rows, width}, {1, rows}), out);
  }
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, Rtn, "rtn", "rounds each weight to the nearest number of its format", "")

}  // namespace patchbay
