// A share of the columns in 16 bits, the others in another format: which columns carry a model's quality? Formulas (K1)...(K4): README.md.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "kept_columns.h"
#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"
#include "patchbay/weight_seed.h"

namespace patchbay {
namespace {

constexpr const char* kName = "salient";
constexpr KernelInfo kKernels[] = {
    kDecodeKernel,
    {"split", "cpu", "both", "the inner format's own kernel, and beside it the kept columns' products in fp32: nothing is decoded where that has integer products"},
    {"beside", "cuda", "both", "the same on a GPU, where the inner format's weights stay packed and a kernel of its own adds the kept columns"}};

Half held(float value) { return to_half(std::clamp(value, -65504.0f, 65504.0f)); }

class Salient final : public WeightFormat {
 public:
  struct Params {
    double share = 0.01;
    std::string by = "activation";
    std::int64_t seed = 0;
    PluginSpec inner{"int_grouped", nullptr};
    KernelChoice kernel;
    void visit(Fields& f) {
      f.real("share", share, 0.0, 1.0, {"of the columns that are kept in fp16, rounded up"});
      f.choice("by", by, {"activation", "weight", "random"}, {"which: those of the largest inputs, of the largest weights, or drawn"});
      f.integer("seed", seed, 0, 1 << 30, {"of the draw"});
      f.plugin("inner", inner, "formats", {"format of the other columns"});
      f.kernel("kernel", kernel, kKernels, {"how the packed weight is multiplied"});
    }
    void check() const { require_one_kernel(kernel, kKernels, kName); }
  };
  explicit Salient(const Params& params) : params_(params), inner_(make<WeightFormat>(params.inner)) {}

  std::string label() const override {
    char share[32];
    std::snprintf(share, sizeof share, "%g%%", 100 * params_.share);
    return std::string(kName) + "/" + share + "/" + params_.by + "/" + inner_->label();
  }
  /// The whole row: a grid is not told where its tile stands, and must know which columns are kept.
  std::int64_t tile_columns(std::int64_t cols) const override { return cols; }
  Needs needs() const override {
    Needs own;
    own.moments = params_.by == "activation" && params_.share > 0;
    return own | inner_->needs();
  }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    std::vector<PartSpec> parts = inner_->layout(rows, cols);
    const std::int64_t kept = kept_count(cols);
    if (kept > 0) parts.insert(parts.begin(), {{"columns", DType::i32, {kept}}, {"values", DType::f16, {rows, kept}}});
    return parts;
  }

  std::shared_ptr<WeightFormat> fitted_to(View<const float, 2> w, const Statistics& statistics) const override {
    auto fitted = std::make_shared<Salient>(*this);
    if (auto inner = inner_->fitted_to(w, statistics)) fitted->inner_ = std::move(inner);
    fitted->columns_ = chosen_columns(w, statistics);
    return fitted;
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, kName);
    const std::int64_t cols = tile.shape[1], width = inner_->tile_columns(cols);
    auto grid = std::make_unique<SalientGrid>();
    grid->width = width;
    grid->kept.resize(static_cast<std::size_t>(cols));
    for (const std::int32_t column : columns_) grid->kept[column] = true;
    for (std::int64_t first = 0; first < cols; first += width) {
      FitOptions of_tile = options;
      if (options.importance.shape[0] > 0)
        of_tile.importance = {options.importance.data + first * options.importance.strides[0], {width}, options.importance.strides};
      grid->tiles.push_back(inner_->fit({tile.data + first * tile.strides[1], {tile.shape[0], width}, tile.strides}, of_tile));
    }
    return grid;
  }

  void pack(const Grid& grid, std::int64_t, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& fitted = dynamic_cast<const SalientGrid&>(grid);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      out.parts[0].as<std::int32_t, 1>()[static_cast<std::int64_t>(k)] = columns_[k] + 1;
      for (std::int64_t r = 0; r < out.rows; ++r)
        out.parts[1].as<Half, 2>()(r, static_cast<std::int64_t>(k)) = Half{static_cast<std::uint16_t>(codes(r, columns_[k]))};
    }
    PackedWeight inner = inner_part(out);
    for (std::int64_t first = 0; first < out.cols; first += fitted.width) {
      const std::vector<std::int32_t> of_tile = fitted.inner_codes(first, codes);
      inner_->pack(*fitted.tiles[first / fitted.width], first, View<const std::int32_t, 2>(of_tile.data(), {out.rows, fitted.width}, {1, out.rows}), inner);
    }
  }

  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    inner_->decode(inner_part(w), first_row, out);
    const std::vector<std::int32_t> columns = stored_columns(w);
    for (std::size_t k = 0; k < columns.size(); ++k)  // (K2)
      for (std::int64_t r = 0; r < out.shape[0]; ++r) out(r, columns[k]) = kept_value(w, first_row + r, static_cast<std::int64_t>(k));
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const override {
    const bool host = ops.device().is_host();
    if (host && host_kernel(params_.kernel, kKernels, label()).name == "decode") return decode_then_multiply(*this, w, ops);
    if (!host) pick_kernel(params_.kernel.prefill, kKernels, label(), "prefill", "cuda");
    auto inner = inner_->prepare(inner_part(w), ops, mode);
    const std::string inner_path = inner->path();
    const std::string path = label() + (host ? ":split/" : ":beside/") + inner_path.substr(inner_path.rfind(':') + 1);
    return with_kept_columns(path, std::move(inner), kept_columns(w), ops);
  }

 private:
  struct SalientGrid final : Grid {
    std::int64_t width = 0;
    std::vector<std::unique_ptr<Grid>> tiles;
    std::vector<bool> kept;
    /// (K2); (K3) of the others
    void round(std::int64_t column, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      if (!kept[column]) return tiles[column / width]->round(column % width, values, codes, decoded);
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const Half half = held(values[r]);
        codes[r] = half.bits;
        decoded[r] = to_float(half);
      }
    }
    /// Column after column, the codes of a tile as the inner format has them: kept columns rounded to its grid too.
    std::vector<std::int32_t> inner_codes(std::int64_t first, View<const std::int32_t, 2> codes) const {
      const std::int64_t rows = codes.shape[0];
      std::vector<std::int32_t> inner(static_cast<std::size_t>(rows * width));
      std::vector<float> values(static_cast<std::size_t>(rows)), unused(values.size());
      for (std::int64_t c = 0; c < width; ++c) {
        std::int32_t* const column = inner.data() + c * rows;
        for (std::int64_t r = 0; r < rows; ++r) column[r] = codes(r, first + c);
        if (!kept[first + c]) continue;
        for (std::int64_t r = 0; r < rows; ++r) values[r] = to_float(Half{static_cast<std::uint16_t>(column[r])});
        tiles[first / width]->round(c, {values.data(), {rows}}, {column, {rows}}, {unused.data(), {rows}});
      }
      return inner;
    }
  };

  std::int64_t kept_count(std::int64_t cols) const {
    return std::min(cols, static_cast<std::int64_t>(std::ceil(params_.share * static_cast<double>(cols) - 1e-9)));
  }
  /// (K1) In ascending order.
  std::vector<std::int32_t> chosen_columns(View<const float, 2> w, const Statistics& statistics) const {
    const std::int64_t cols = w.shape[1], kept = kept_count(cols);
    if (kept == 0) return {};
    std::vector<double> score(static_cast<std::size_t>(cols));
    std::mt19937_64 random(seed_of(w, static_cast<std::uint64_t>(params_.seed)));
    // Where no token came by (an expert that was never chosen) inputs say nothing.
    const bool by_input = params_.by == "activation" && statistics.second_moment.size() > 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      if (params_.by == "random") score[c] = static_cast<double>(random() >> 11);
      else if (by_input) score[c] = statistics.second_moment[c];
      else for (std::int64_t r = 0; r < w.shape[0]; ++r) score[c] += static_cast<double>(w(r, c)) * w(r, c);
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return score[a] > score[b]; });
    order.resize(static_cast<std::size_t>(kept));
    std::sort(order.begin(), order.end());
    return order;
  }

  PackedWeight inner_part(const PackedWeight& w) const {
    PackedWeight inner = w;
    if (kept_count(w.cols) > 0) inner.parts.erase(inner.parts.begin(), inner.parts.begin() + 2);
    return inner;
  }
  /// Of a weight whose format was never fitted: none.
  std::vector<std::int32_t> stored_columns(const PackedWeight& w) const {
    std::vector<std::int32_t> columns;
    for (std::int64_t k = 0; k < kept_count(w.cols); ++k) {
      const std::int32_t column = w.parts[0].as<std::int32_t, 1>()[k];
      if (column < 0 || column > w.cols) throw Error(label(), "column " + std::to_string(column - 1) + " of " + std::to_string(w.cols) + " is kept", {}, "make the weight again");
      if (column > 0) columns.push_back(column - 1);
    }
    return columns;
  }
  static float kept_value(const PackedWeight& w, std::int64_t row, std::int64_t k) { return to_float(w.parts[1].as<Half, 2>()(row, k)); }
  KeptColumns kept_columns(const PackedWeight& w) const {
    KeptColumns kept{stored_columns(w), {}};
    const PackedWeight inner = inner_part(w);
    std::vector<float> row(static_cast<std::size_t>(w.cols));
    for (std::int64_t r = 0; r < w.rows; ++r) {
      inner_->decode(inner, r, {row.data(), {1, w.cols}});
      for (std::size_t k = 0; k < kept.columns.size(); ++k)
        kept.differences.push_back(kept_value(w, r, static_cast<std::int64_t>(k)) - row[kept.columns[k]]);
    }
    return kept;
  }

  Params params_;
  std::shared_ptr<WeightFormat> inner_;
  std::vector<std::int32_t> columns_;  // kept, once fitted
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, Salient, "salient", "a share of the columns in fp16, chosen by inputs, weights or at random; the others in another format",
                "Lin et al., AWQ: Activation-aware Weight Quantization, MLSys 2024 (arXiv:2306.00978), section 3.1")

}  // namespace patchbay
