// AWQ: columns of weights that meet large inputs are scaled up before they are rounded, and their inputs down. Which factors, the error of
// the rounded layer's outputs decides. Formulas (A1)...(A6): README.md. N drawn inputs; R rows and C columns of a weight.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "output_error.h"
#include "patchbay/group_scaling.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

using Factors = std::vector<float>;  // (C)

/// Columns [first, first + width) of w.
template <class T>
View<T, 2> columns(View<T, 2> w, std::int64_t first, std::int64_t width) {
  return View<T, 2>(w.data + first * w.strides[1], {w.shape[0], width}, w.strides);
}

/// What rounding to nearest makes of one tile of the format. Not the kit's round_to_nearest, which packs: a hundred tries a group would each be packed
/// and decoded again.
void round_tile(const WeightFormat& format, View<const float, 2> tile, View<float, 2> rounded) {
  const std::int64_t rows = tile.shape[0];
  const auto grid = format.fit(tile, {});
  std::vector<std::int32_t> codes(static_cast<std::size_t>(rows));
  for (std::int64_t c = 0; c < tile.shape[1]; ++c)
    grid->round(c, {tile.data + c * tile.strides[1], {rows}, {tile.strides[0]}}, {codes.data(), {rows}}, {rounded.data + c * rounded.strides[1], {rows}, {rounded.strides[0]}});
}

class Awq final : public Transform {
 public:
  struct Params {
    int n_grid = 20;
    bool duo_scaling = true;
    bool clip = true;
    double max_shrink = 0.5;
    bool even_inputs = false;
    int inputs = 512;
    void visit(Fields& f) {
      f.integer("n_grid", n_grid, 1, 1000, {"exponents tried, from 0 up to 1; and into how many steps a range is cut for clamping"});
      f.boolean("duo_scaling", duo_scaling, {"factors from the inputs' size and the weights', or from the inputs' alone"});
      f.boolean("clip", clip, {"also clamps the largest weights of a group where its outputs gain by it (not of q and k)"});
      f.real("max_shrink", max_shrink, 0.0, 0.99, {"which share of a range clamping may take away"});
      f.boolean("even_inputs", even_inputs, {"each input divided by its length, so that a few tokens with huge activations do not decide for all"});
      f.integer("inputs", inputs, 1, 1 << 16, {"inputs on which errors are measured, drawn evenly from the calibration tokens", "row"});
    }
  };
  explicit Awq(const Params& params) : params_(params) {}

  Needs needs() const override {
    Needs needs;
    needs.inputs = params_.inputs;
    return needs;
  }

  std::string apply(LinearGroup& group, Device& device) const override {
    if (!is_quantized(group)) return {};
    if (group.statistics.inputs.size() == 0) return "not scaled: no calibration token came by";
    awq::Inputs inputs(group.statistics.inputs, params_.even_inputs);
    std::string line = can_be_scaled(group) ? scale(group, inputs, device) : "not scaled: nothing before it takes the factors";
    return params_.clip ? line + clip(group, inputs, device) : line;
  }

 private:
  // --- scales

  /// Searches the factors, and applies them to group and inputs. Returns what was found.
  std::string scale(LinearGroup& group, awq::Inputs& inputs, Device& device) const {
    Factors x = inputs.mean_sizes();  // (A1)
    share_largest(group, x);
    const Factors w = params_.duo_scaling ? mean_weights(group) : Factors(x.size(), 1.0f);
    Factors best(x.size(), 1.0f);
    double least = error(group, best, inputs, device), best_exponent = -1;
    const double plain = least;
    for (int i = 0; i < params_.n_grid; ++i) {  // (A4)
      const double exponent = static_cast<double>(i) / params_.n_grid;
      const Factors factors = factors_of(x, w, exponent);
      const double tried = error(group, factors, inputs, device);
      if (!(tried < least)) continue;
      least = tried;
      best = factors;
      best_exponent = exponent;
    }
    if (best_exponent < 0) return "not scaled: no exponent lessens the error";
    scale_group(group, best);
    inputs.divide(best);
    char text[96];
    std::snprintf(text, sizeof text, "exponent %g, error of its outputs %.3g of before", best_exponent, least / plain);
    return text;
  }

  /// (A2) Mean size of each column of the weights, each taken as a share of the largest in its row and tile.
  static Factors mean_weights(const LinearGroup& group) {
    std::vector<double> sums(static_cast<std::size_t>(columns_of(group)));
    double rows = 0;
    for (const EditableMatrix& consumer : group.consumers) {
      if (!consumer.format) continue;
      const View<float, 2> w = consumer.w;
      const std::int64_t width = consumer.format->tile_columns(w.shape[1]);
      rows += static_cast<double>(w.shape[0]);
      for (std::int64_t r = 0; r < w.shape[0]; ++r)
        for (std::int64_t first = 0; first < w.shape[1]; first += width) {
          float largest = 0;
          for (std::int64_t c = first; c < first + width; ++c) largest = std::max(largest, std::fabs(w(r, c)));
          for (std::int64_t c = first; c < first + width && largest > 0; ++c) sums[c] += std::fabs(w(r, c)) / largest;
        }
    }
    Factors means(sums.size());
    std::transform(sums.begin(), sums.end(), means.begin(), [&](double sum) { return static_cast<float>(sum / rows); });
    share_largest(group, means);
    return means;
  }

  /// (A3). A channel that no drawn input has says nothing of its own: its factor is 1.
  Factors factors_of(const Factors& x, const Factors& w, double exponent) const {
    std::vector<double> raw(x.size());
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      if (!(x[c] > 0)) continue;
      raw[c] = std::max(std::pow(double{x[c]}, exponent) / (params_.duo_scaling ? std::pow(double{w[c]}, 1 - exponent) + 1e-4 : 1.0), 1e-4);
      low = std::min(low, raw[c]);
      high = std::max(high, raw[c]);
    }
    Factors factors(x.size(), 1.0f);
    for (std::size_t c = 0; c < x.size(); ++c)
      if (raw[c] > 0) factors[c] = static_cast<float>(raw[c] / std::sqrt(high * low));
    return factors;
  }

  /// (A4) Of all outputs of the group, were its weights rounded to nearest with these factors.
  static double error(const LinearGroup& group, const Factors& factors, const awq::Inputs& inputs, Device& device) {
    double sum = 0;
    for (const EditableMatrix& consumer : group.consumers) {
      if (!consumer.format) continue;
      const std::int64_t rows = consumer.w.shape[0], cols = consumer.w.shape[1], width = consumer.format->tile_columns(cols);
      std::vector<float> scaled(static_cast<std::size_t>(rows * cols)), rounded(scaled.size());
      const View<float, 2> s(scaled.data(), {rows, cols}), d(rounded.data(), {rows, cols});
      device.parallel_for(cols / width, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t first = begin * width; first < end * width; first += width) {
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = first; c < first + width; ++c) s(r, c) = consumer.w(r, c) * factors[c];
          round_tile(*consumer.format, columns<const float>(s, first, width), columns(d, first, width));
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = first; c < first + width; ++c) d(r, c) = d(r, c) / factors[c] - consumer.w(r, c);
        }
      });
      std::vector<double> errors(static_cast<std::size_t>(rows));
      device.parallel_for((rows + 3) / 4, 4, [&](std::int64_t begin, std::int64_t end, int) {
        awq::output_errors(inputs, d, 0, 4 * begin, std::min(4 * end, rows), errors);
      });
      sum = std::accumulate(errors.begin(), errors.end(), sum);
    }
    return sum;
  }

  // --- clamping

  std::string clip(LinearGroup& group, const awq::Inputs& inputs, Device& device) const {
    double clamped = 0, all = 0;
    for (EditableMatrix& consumer : group.consumers) {
      // What counts of q and k is their product, which the error of either does not show: both stay, as in the authors' code.
      const auto is = [&](const char* label) { return consumer.name.find(label) != std::string::npos; };
      if (!consumer.format || is("attn_q") || is("attn_k")) continue;
      const std::int64_t width = consumer.format->tile_columns(consumer.w.shape[1]);
      std::vector<std::int64_t> of_tiles(static_cast<std::size_t>(consumer.w.shape[1] / width));
      device.parallel_for(consumer.w.shape[1] / width, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t tile = begin; tile < end; ++tile) of_tiles[tile] = clip_tile(*consumer.format, columns(consumer.w, tile * width, width), tile * width, inputs);
      });
      clamped += std::accumulate(of_tiles.begin(), of_tiles.end(), 0.0);
      all += static_cast<double>(consumer.w.size() / width);
    }
    if (!(all > 0)) return {};
    char text[64];
    std::snprintf(text, sizeof text, "; %.3g%% of groups clamped", 100 * clamped / all);
    return text;
  }

  /// (A5), (A6) for one tile, row by row. Returns how many of its rows are clamped.
  std::int64_t clip_tile(const WeightFormat& format, View<float, 2> w, std::int64_t first_column, const awq::Inputs& inputs) const {
    const std::int64_t rows = w.shape[0], width = w.shape[1];
    std::vector<float> clamped(static_cast<std::size_t>(rows * width)), rounded(clamped.size()), largest(static_cast<std::size_t>(rows)), best(largest.size(), 1.0f);
    std::vector<double> least(largest.size(), std::numeric_limits<double>::infinity()), errors(largest.size());
    const View<float, 2> cut(clamped.data(), {rows, width}), d(rounded.data(), {rows, width});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < width; ++c) largest[r] = std::max(largest[r], std::fabs(w(r, c)));
    for (int step = 0; step == 0 || step < params_.max_shrink * params_.n_grid; ++step) {
      const float share = 1.0f - static_cast<float>(step) / static_cast<float>(params_.n_grid);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c) cut(r, c) = std::clamp(w(r, c), -share * largest[r], share * largest[r]);  // (A5)
      round_tile(format, cut, d);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c) d(r, c) -= w(r, c);
      awq::output_errors(inputs, d, first_column, 0, rows, errors);  // (A6)
      for (std::int64_t r = 0; r < rows; ++r)
        if (errors[r] < least[r]) least[r] = errors[r], best[r] = share;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < width; ++c) w(r, c) = std::clamp(w(r, c), -best[r] * largest[r], best[r] * largest[r]);
    return std::count_if(best.begin(), best.end(), [](float share) { return share < 1; });
  }

  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Transform, Awq, "awq", "scales columns by their inputs' size, as the error of the rounded layer's outputs says",
                "Lin et al., AWQ: Activation-aware Weight Quantization for On-Device LLM Compression and Acceleration, MLSys 2024 (arXiv:2306.00978)")

}  // namespace patchbay
