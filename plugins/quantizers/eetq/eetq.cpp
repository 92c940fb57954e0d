// EETQ: weights in 8 bits, one scale for each output channel, no calibration. Formulas (E1), (E2): README.md.
#include <algorithm>
#include <cmath>
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

constexpr float kLevels = 128;  // codes -128 ... 127

class Eetq final : public Quantizer {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Eetq(const Params&) {}

  void quantize(View<const float, 2> w, const Statistics&, const WeightFormat& format, Device& device, PackedWeight& out) const override {
    const std::int64_t rows = w.shape[0], cols = w.shape[1];
    require_int8_channels(format, cols);
    std::vector<float> largest(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        if (!std::isfinite(w(r, c))) throw Error("eetq", "row " + std::to_string(r) + " holds a weight of " + std::to_string(w(r, c)), "finite numbers");
        largest[r] = std::max(largest[r], std::fabs(w(r, c)));
      }
    const auto grid = grid_of(format, largest, cols);
    std::vector<std::int32_t> codes(static_cast<std::size_t>(rows * cols));  // column after column
    device.parallel_for(cols, 64, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> decoded(static_cast<std::size_t>(rows));
      for (std::int64_t c = begin; c < end; ++c)  // (E2)
        grid->round(c, {w.data + c * w.strides[1], {rows}, {w.strides[0]}}, {codes.data() + c * rows, {rows}}, {decoded.data(), {rows}});
    });
    format.pack(*grid, 0, View<const std::int32_t, 2>(codes.data(), {rows, cols}, {1, rows}), out);
  }

 private:
  /// (E1) A format covers a range -m ... m by 255 steps; of m = max|w| 255 / 256 it makes the scale that EETQ has.
  static std::unique_ptr<Grid> grid_of(const WeightFormat& format, const std::vector<float>& largest, std::int64_t cols) {
    const auto rows = static_cast<std::int64_t>(largest.size());
    std::vector<float> range(static_cast<std::size_t>(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r) range[r * cols] = largest[r] * (2 * kLevels - 1) / (2 * kLevels);
    return format.fit(View<const float, 2>(range.data(), {rows, cols}), {});
  }

  /// The scale of a channel whose largest weight is 128 is 1: such a format, and no other, has all integers from -128 to 127.
  static void require_int8_channels(const WeightFormat& format, std::int64_t cols) {
    bool fits = format.tile_columns(cols) == cols;
    const auto grid = fits ? grid_of(format, {kLevels}, cols) : nullptr;
    for (float level = -kLevels; fits && level < kLevels; ++level) {
      const float near = level + 0.25f;
      std::int32_t code;
      float decoded;
      grid->round(cols - 1, View<const float, 1>(&near, {1}), {&code, {1}}, {&decoded, {1}});
      fits = decoded == level;
    }
    if (!fits)
      throw Error("eetq", "format " + format.label() + " is not 8-bit integers with one scale for each row",
                  "int_grouped with bits: 8, group_size: -1, symmetric: true", "set the format so, or take quantizer rtn");
  }
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, Eetq, "eetq", "8-bit integers, one scale for each output channel, no calibration",
                "EETQ (NetEase FuXi), whose grid is that of FasterTransformer's int8 weights; Kim et al. 2022 (arXiv:2211.10017)")

}  // namespace patchbay
