// GPTQ: columns are rounded one after the other, and what is lost in one is made up for in those that follow, as the Hessian of the layer's
// error says. Formulas (G1)...(G7): README.md. R rows and C columns of the weight; "turn": the place of a column in the order of rounding.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "inverse_factor.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

constexpr int kDampingSteps = 10;  // each takes ten times as much

struct GptqParams {
  double damp_percent = 0.01;
  bool act_group_aware = true, desc_act = false, static_groups = false, true_sequential = true, mse = false;
  int block_size = 128;
  std::string precision = "fp64";
  void visit(Fields& f) {
    f.real("damp_percent", damp_percent, 0.0, 1.0, {"share of the Hessian's mean diagonal that is added to its diagonal; tenfold where that is too little"});
    f.boolean("act_group_aware", act_group_aware, {"rounds groups with large inputs first, and in each group the columns with large inputs; needs no order stored"});
    f.boolean("desc_act", desc_act, {"rounds all columns with large inputs first, whatever their group, which then follows that order"});
    f.boolean("static_groups", static_groups, {"scales are fitted to the weights as they were, before anything is rounded; an order then needs no storing"});
    f.boolean("true_sequential", true_sequential, {"within a block, q, k and v first, then output, gate and up, down: each sees those before it quantised"});
    f.boolean("mse", mse, {"looks for the scales of least squared error, not just those that cover the range"});
    f.integer("block_size", block_size, 1, 1 << 16, {"columns whose errors are passed on together to all behind them", "column"});
    f.choice("precision", precision, {"fp32", "fp64"}, {"numbers in which the Hessian is factorised"});
  }
};

/// (G1), (G2) The Hessian in the order of rounding, with what is wrong with it mended.
class DampedHessian {
 public:
  /// Columns come in descending order of their inputs' size, stretches of `together` columns as a whole and each within itself; 0: as they lie.
  /// @throws Error for one that is not finite.
  DampedHessian(const Statistics& statistics, std::int64_t cols, std::int64_t together) : given_(statistics.hessian), order_(cols), dead_(cols) {
    std::iota(order_.begin(), order_.end(), 0);
    if (!known()) return;  // no token came by (an expert that was never chosen): H is I, and GPTQ is rounding to nearest
    for (std::int64_t i = 0; i < cols; ++i) {
      for (std::int64_t j = 0; j < cols; ++j)
        if (!std::isfinite(given_(i, j))) refuse(i);
      dead_[i] = !(given_(i, i) > 0);
      mean_ += dead_[i] ? 0.0 : given_(i, i) / static_cast<double>(cols);
    }
    if (together > 0) sort(cols, together);
  }

  bool known() const { return given_.size() > 0; }
  /// The column whose turn comes as number `turn`.
  const std::vector<std::int32_t>& order() const { return order_; }
  bool dead(std::int64_t turn) const { return dead_[order_[turn]]; }
  std::int64_t dead_columns() const { return std::ranges::count(dead_, true); }
  void damp(double share) { added_ = share * (mean_ > 0 ? mean_ : 1.0); }

  /// Of two turns.
  double operator()(std::int64_t i, std::int64_t j) const {
    if (i != j) return !known() || dead(i) || dead(j) ? 0.0 : given_(order_[i], order_[j]);
    return (!known() || dead(i) ? 1.0 : given_(order_[i], order_[i])) + added_;
  }

 private:
  void sort(std::int64_t cols, std::int64_t together) {
    std::vector<float> largest(static_cast<std::size_t>(cols / together));  // by stretch
    for (std::int64_t i = 0; i < cols; ++i) largest[i / together] = std::max(largest[i / together], given_(i, i));
    std::ranges::stable_sort(order_, [&](std::int32_t a, std::int32_t b) {
      const std::int64_t of_a = a / together, of_b = b / together;
      if (of_a == of_b) return given_(a, a) > given_(b, b);
      return largest[of_a] != largest[of_b] ? largest[of_a] > largest[of_b] : of_a < of_b;
    });
  }
  [[noreturn]] static void refuse(std::int64_t column) {
    throw Error("gptq", "the Hessian of this layer's inputs is not finite in column " + std::to_string(column), "finite numbers",
                "look at the calibration samples and the blocks before: an input of this layer was NaN, infinite or larger than 1e18");
  }
  View<const float, 2> given_;
  std::vector<std::int32_t> order_;
  std::vector<bool> dead_;  ///< by column: no input ever reached it, so nothing it holds changes an output
  double mean_ = 0, added_ = 0;
};

/// One weight on its way to codes.
class Rounding {
 public:
  Rounding(View<const float, 2> w, const GptqParams& params, const WeightFormat& format, Device& device, PackedWeight& out)
      : rows_(w.shape[0]), cols_(w.shape[1]), width_(format.tile_columns(cols_)), params_(params), format_(format), device_(device), out_(out),
        columns_(static_cast<std::size_t>(rows_ * cols_)), codes_(columns_.size()), decoded_(rows_), grids_(cols_ / width_), w_(w) {}

  void run(const Statistics& statistics) {
    DampedHessian hessian(statistics, cols_, params_.desc_act ? cols_ : params_.act_group_aware ? width_ : 0);
    order_ = hessian.order();
    copy_columns();
    factorise(hessian);
    if (statistics.tokens > 0 && statistics.tokens < cols_) out_.say("fewer tokens (" + std::to_string(statistics.tokens) + ") than columns");
    if (params_.mse) weigh(hessian);
    in_order_ = params_.desc_act && !params_.static_groups && stores_order();
    fixed_ = params_.static_groups || (params_.desc_act && !in_order_);
    if (fixed_) fit_all();
    for (std::int64_t first = 0, last; first < cols_; first = last) {
      last = std::min(first + block_columns(first), cols_);
      round(first, last);
      pass_on(first, last, last, cols_);
    }
    pack();
  }

 private:
  float* column(std::int64_t turn) { return columns_.data() + turn * rows_; }
  /// Where the codes of a turn are stored: in the column's own place, unless the format keeps the order of rounding.
  std::int64_t place(std::int64_t turn) const { return in_order_ ? turn : order_[turn]; }

  /// Columns lie in one piece, in the order of their turns: all below goes column by column.
  void copy_columns() {
    device_.parallel_for(cols_, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = 0; r < rows_; ++r)
        for (std::int64_t turn = begin; turn < end; ++turn) column(turn)[r] = w_(r, order_[turn]);
    });
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (!std::isfinite(columns_[i]))
        throw Error("gptq", "row " + std::to_string(i % rows_) + " holds a weight of " + std::to_string(columns_[i]), "finite numbers",
                    "repair the model file, or leave this tensor as stored (quantizer none)");
  }

  /// (G2), (G3): raises the damping until the Hessian has a factor.
  void factorise(DampedHessian& hessian) {
    double damping = params_.damp_percent;
    for (int step = 0; step < kDampingSteps && u_.empty(); ++step) {
      if (step > 0) damping = damping > 0 ? 10 * damping : 1e-4;
      hessian.damp(damping);
      u_ = params_.precision == "fp32" ? gptq::upper_of_inverse<float>(cols_, hessian, device_) : gptq::upper_of_inverse<double>(cols_, hessian, device_);
    }
    if (u_.empty())
      throw Error("gptq", "the Hessian of this layer's inputs is not positive definite however it is damped", {}, "give other calibration samples");
    char text[64];
    std::snprintf(text, sizeof text, "damping %g", damping);
    out_.say(text);
    if (damping != params_.damp_percent) out_.say("raised until the Hessian had a factor");
    if (hessian.known() && hessian.dead_columns() > 0) out_.say("dead columns " + std::to_string(hessian.dead_columns()));
  }

  /// (G6)
  void weigh(const DampedHessian& hessian) {
    importance_.resize(cols_);
    for (std::int64_t turn = 0; turn < cols_; ++turn) {
      const float pivot = u_[turn * cols_ + turn];
      importance_[turn] = hessian.dead(turn) ? 0.0f : 1.0f / (pivot * pivot);
    }
  }

  /// Whether the tiles may be filled in the order of rounding. Where all columns share one tile nothing needs to be stored for it.
  bool stores_order() {
    if (width_ == cols_) return false;
    if (format_.store_column_order({order_.data(), {cols_}}, out_)) return true;
    out_.say("scales fitted beforehand, since " + format_.label() + " keeps no order of columns");
    return false;
  }

  /// (G5) Of a tile whose columns lie as they are stored.
  std::unique_ptr<Grid> fit(View<const float, 2> tile, const float* importance) const {
    FitOptions options{.importance = {}, .search = params_.mse};
    if (params_.mse) options.importance = {importance, {width_}};
    return format_.fit(tile, options);
  }

  /// (G5) Of the tile whose turns are the next `width_`, to its columns as they are by now.
  std::unique_ptr<Grid> fit_next(std::int64_t turn) const {
    std::vector<float> tile(static_cast<std::size_t>(width_ * rows_)), importance(static_cast<std::size_t>(width_));
    for (std::int64_t i = 0; i < width_; ++i) {
      const std::int64_t at = place(turn + i) % width_;
      std::copy_n(columns_.data() + (turn + i) * rows_, rows_, tile.data() + at * rows_);
      if (params_.mse) importance[at] = importance_[turn + i];
    }
    return fit(View<const float, 2>(tile.data(), {rows_, width_}, {1, rows_}), importance.data());
  }

  /// (G7) All grids, to the weights as they were, in the columns' own places.
  void fit_all() {
    std::vector<float> importance(importance_.size());
    for (std::size_t turn = 0; turn < importance_.size(); ++turn) importance[order_[turn]] = importance_[turn];
    device_.parallel_for(cols_ / width_, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t tile = begin; tile < end; ++tile)
        grids_[tile] = fit({&w_(0, tile * width_), {rows_, width_}, w_.strides}, importance.data() + tile * width_);
    });
  }

  /// A block is whole tiles, or a part of one.
  std::int64_t block_columns(std::int64_t first) const {
    const std::int64_t size = params_.block_size;
    return size >= width_ ? size - size % width_ : std::min(size, width_ - first % width_);
  }

  /// Columns [first, last): the left half, whose errors all columns of the right one get before its turn comes. So most of (G4) is products
  /// of matrices. Halves part between tiles: a tile is fitted to columns that have got all errors of those before it.
  void round(std::int64_t first, std::int64_t last) {
    if (last - first == 1) return round_column(first);
    std::int64_t middle = (first + last) / 2;
    if (last - first > width_) middle = first + std::max(width_, (middle - first) / width_ * width_);
    round(first, middle);
    pass_on(first, middle, middle, last);
    round(middle, last);
  }

  /// The column becomes its error. (G4)
  void round_column(std::int64_t turn) {
    const std::int64_t at = place(turn), tile = at / width_;
    if (!fixed_ && turn % width_ == 0) grids_[tile] = fit_next(turn);
    float* const values = column(turn);
    grids_[tile]->round(at % width_, View<const float, 1>(values, {rows_}), {codes_.data() + at * rows_, {rows_}}, {decoded_.data(), {rows_}});
    const float inverse = 1.0f / u_[turn * cols_ + turn];
    for (std::int64_t r = 0; r < rows_; ++r) values[r] = (values[r] - decoded_[r]) * inverse;
  }

  /// (G4) Takes the errors of turns [from, to) off the columns of turns [begin, end).
  void pass_on(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end) {
    gptq::subtract_product<float>(to - from, end - begin, rows_, {u_.data() + from * cols_ + begin, cols_}, {column(from), rows_},
                                  {column(begin), rows_}, device_);
  }

  void pack() {
    device_.parallel_for(cols_ / width_, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t tile = begin; tile < end; ++tile)
        format_.pack(*grids_[tile], tile * width_, View<const std::int32_t, 2>(codes_.data() + tile * width_ * rows_, {rows_, width_}, {1, rows_}), out_);
    });
  }

  const std::int64_t rows_, cols_, width_;
  const GptqParams& params_;
  const WeightFormat& format_;
  Device& device_;
  PackedWeight& out_;
  std::vector<std::int32_t> order_;   ///< the column of each turn
  std::vector<float> columns_;        ///< (C,R) in the order of turns: what is to be rounded, then the error e
  std::vector<float> u_;              ///< (C,C) in that order: U
  std::vector<float> importance_;     ///< (C) in that order, with mse
  std::vector<std::int32_t> codes_;   ///< (C,R), by place
  std::vector<float> decoded_;        ///< (R)
  std::vector<std::unique_ptr<Grid>> grids_;  ///< by tile
  bool fixed_ = false;                ///< all grids were fitted before the first column was rounded
  bool in_order_ = false;             ///< the format keeps the order of rounding: tiles are filled in it
  View<const float, 2> w_;
};

class Gptq final : public Quantizer {
 public:
  using Params = GptqParams;
  explicit Gptq(const Params& params) : params_(params) {}

  Needs needs() const override { return {.hessian = true, .sequential = params_.true_sequential}; }

  void quantize(View<const float, 2> w, const Statistics& statistics, const WeightFormat& format, Device& device,
                PackedWeight& out) const override {
    Rounding(w, params_, format, device, out).run(statistics);
  }

 private:
  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, Gptq, "gptq", "rounds column by column and makes up for each error in the columns that follow",
                "Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023 (arXiv:2210.17323)")

}  // namespace patchbay
