// HQQ: half-quadratic quantisation. The zero points of groups are moved so that the lp norm of the weights' error becomes small, which looks at
// the many small errors and forgives few large ones. Formulas (H1)...(H4): README.md. R rows of a tile of C columns, one group each.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

struct HqqParams {
  double norm = 0.7, beta = 10, growth = 1.01;
  int iterations = 20;
  std::string solve = "both";
  void visit(Fields& f) {
    f.real("norm", norm, 0.1, 1.0, {"p of the lp norm of the error"});
    f.real("beta", beta, 0.01, 1e6, {"weight of the term that ties the split-off error to the real one, at first"});
    f.real("growth", growth, 1.0, 10.0, {"factor of beta from one iteration to the next"});
    f.integer("iterations", iterations, 1, 1000, {"at most so many"});
    f.choice("solve", solve, {"zero", "both"}, {"what moves: the zero points alone, as in the paper, or the scales with them"});
  }
};

/// What the codes of a group mean: value = scale * (code - zero).
struct Group {
  double scale = 0, zero = 0;
};

/// The rows of one tile, whose grid is found through the format: it is fitted to a stand-in with the range that a group should cover.
class Tile {
 public:
  Tile(View<const float, 2> w, const HqqParams& params, const WeightFormat& format)
      : w_(w), rows_(w.shape[0]), cols_(w.shape[1]), params_(params), format_(format), codes_(static_cast<std::size_t>(rows_ * cols_)), decoded_(codes_.size()) {}

  /// Fits, solves and rounds; gives the number of groups that moved.
  std::int64_t run() {
    fit(w_);
    const std::vector<double> covering = errors();
    std::vector<float> ranges = ranges_of(solved());
    fit(View<const float, 2>(ranges.data(), {rows_, cols_}));
    const std::vector<double> moved = errors();
    std::int64_t better = 0;
    for (std::int64_t r = 0; r < rows_; ++r) {  // what the format made of the range (zero points may be integers) decides
      if (moved[r] < covering[r]) ++better;
      else for (std::int64_t c = 0; c < cols_; ++c) ranges[r * cols_ + c] = w_(r, c);
    }
    if (better < rows_) fit(View<const float, 2>(ranges.data(), {rows_, cols_}));
    round();
    return better;
  }
  const Grid& grid() const { return *grid_; }
  View<const std::int32_t, 2> codes() const { return {codes_.data(), {rows_, cols_}, {1, rows_}}; }

 private:
  void fit(View<const float, 2> range) { grid_ = format_.fit(range, {}); }
  void round() {
    for (std::int64_t c = 0; c < cols_; ++c)
      grid_->round(c, {w_.data + c * w_.strides[1], {rows_}, {w_.strides[0]}}, {codes_.data() + c * rows_, {rows_}}, {decoded_.data() + c * rows_, {rows_}});
  }
  /// (H1) Of each row, on the grid as it is stored.
  std::vector<double> errors() {
    round();
    std::vector<double> sums(static_cast<std::size_t>(rows_));
    for (std::int64_t c = 0; c < cols_; ++c)
      for (std::int64_t r = 0; r < rows_; ++r) sums[r] += std::pow(std::fabs(double{w_(r, c)} - decoded_[c * rows_ + r]), params_.norm);
    return sums;
  }

  /// What the grid's codes mean, read off its ends: first all rows' lowest numbers, then their highest.
  std::vector<Group> solved() {
    constexpr float kFar = 1e30f;
    std::vector<float> far(static_cast<std::size_t>(rows_), -kFar), low(far.size()), high(far.size());
    std::vector<std::int32_t> low_code(far.size()), high_code(far.size());
    grid_->round(0, View<const float, 1>(far.data(), {rows_}), {low_code.data(), {rows_}}, {low.data(), {rows_}});
    std::ranges::fill(far, kFar);
    grid_->round(0, View<const float, 1>(far.data(), {rows_}), {high_code.data(), {rows_}}, {high.data(), {rows_}});
    std::vector<Group> groups(far.size());
    for (std::int64_t r = 0; r < rows_; ++r) {
      lowest_ = low_code[r], highest_ = high_code[r];
      if (!(high[r] > low[r])) continue;  // a row of zeros
      groups[r].scale = (double{high[r]} - low[r]) / (highest_ - lowest_);
      groups[r].zero = lowest_ - low[r] / groups[r].scale;
      solve(r, groups[r]);
    }
    return groups;
  }

  /// (H2)...(H4), by turns, while it helps.
  void solve(std::int64_t r, Group& best) const {
    Group group = best;
    double beta = params_.beta, least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < params_.iterations; ++i, beta *= params_.growth) {
      double one = 0, l = 0, ll = 0, t = 0, tl = 0, error = 0;  // of levels l and targets t = w - e
      for (std::int64_t c = 0; c < cols_; ++c) {
        const double level = std::clamp(std::nearbyint(w_(r, c) / group.scale + group.zero), double(lowest_), double(highest_));  // (H2)
        const double off = w_(r, c) - group.scale * (level - group.zero), size = std::fabs(off);
        error += std::pow(size, params_.norm);
        const double kept = size > 0 ? std::max(size - std::pow(size, params_.norm - 1) / beta, 0.0) : 0.0;  // (H3)
        const double target = w_(r, c) - std::copysign(kept, off);
        one += 1, l += level, ll += level * level, t += target, tl += target * level;
      }
      if (!(error < least)) return;
      least = error;
      best = group;
      const double determinant = one * ll - l * l;  // (H4)
      if (params_.solve == "both" && determinant > 0 && one * tl > l * t) group.scale = (one * tl - l * t) / determinant;
      group.zero = (l - t / group.scale) / one;
    }
  }

  /// A stand-in for the tile: rows that reach from each group's lowest number to its highest.
  std::vector<float> ranges_of(const std::vector<Group>& groups) const {
    constexpr double kShorter = 1 - 1e-6;  // formats round scales up
    std::vector<float> ranges(static_cast<std::size_t>(rows_ * cols_));
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < cols_; ++c)
        ranges[r * cols_ + c] = static_cast<float>(groups[r].scale * ((c == 0 ? lowest_ : highest_) - groups[r].zero) * kShorter);
    return ranges;
  }

  const View<const float, 2> w_;
  const std::int64_t rows_, cols_;
  const HqqParams& params_;
  const WeightFormat& format_;
  std::unique_ptr<Grid> grid_;
  std::vector<std::int32_t> codes_;  ///< column after column
  std::vector<float> decoded_;
  int lowest_ = 0, highest_ = 0;     ///< codes
};

class Hqq final : public Quantizer {
 public:
  using Params = HqqParams;
  explicit Hqq(const Params& params) : params_(params) {}

  void quantize(View<const float, 2> w, const Statistics&, const WeightFormat& format, Device& device, PackedWeight& out) const override {
    const std::int64_t width = format.tile_columns(w.shape[1]), tiles = w.shape[1] / width;
    require_zero_points(format, width);
    std::vector<std::int64_t> moved(static_cast<std::size_t>(tiles));
    device.parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) {
        Tile tile({w.data + t * width * w.strides[1], {w.shape[0], width}, w.strides}, params_, format);
        moved[t] = tile.run();
        format.pack(tile.grid(), t * width, tile.codes(), out);
      }
    });
    std::int64_t sum = 0;
    for (const std::int64_t groups : moved) sum += groups;
    out.say(std::to_string(100 * sum / (tiles * w.shape[0])) + "% of the groups moved");
  }

 private:
  /// Of a group that reaches from -2 to 6 the lowest number is near -2 where it has a zero point, else -6 or less; and where the tile is one group
  /// all columns round alike.
  static void require_zero_points(const WeightFormat& format, std::int64_t width) {
    bool has_zero = width > 1, one_group = true;
    if (has_zero) {
      std::vector<float> range(static_cast<std::size_t>(width));
      range[0] = -2, range[1] = 6;
      const auto grid = format.fit(View<const float, 2>(range.data(), {1, width}), {});
      const auto rounded = [&](std::int64_t column, float value) {
        std::int32_t code;
        float decoded;
        grid->round(column, View<const float, 1>(&value, {1}), {&code, {1}}, {&decoded, {1}});
        return decoded;
      };
      has_zero = rounded(0, -1e30f) > -4;
      for (float value = -2; value < 6; value += 0.125f) one_group &= rounded(0, value) == rounded(width - 1, value);
    }
    if (!has_zero || !one_group)
      throw Error("hqq", "format " + format.label() + (one_group ? " has no zero points that could move" : " has tiles of several groups"),
                  "formats of one scale and one zero point for each group: int_grouped with symmetric: false, q4_1, q5_1", "take another format, or quantizer scale_search");
  }

  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, Hqq, "hqq", "moves the zero points until the lp norm of the weights' error is small; no calibration",
                "Badri and Shaji, Half-Quadratic Quantization of Large Machine Learning Models, 2023 (Mobius Labs)")

}  // namespace patchbay
