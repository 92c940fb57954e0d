// int8 on both sides: weights with a scale per row or one for all, inputs rounded to 8 bits before each product, integer sums. Formulas
// (W1)...(W6): README.md.
#include <algorithm>
#include <cmath>
#include <vector>

#include "patchbay/eight_bit_scales.h"
#include "patchbay/format_kit.h"
#include "patchbay/gpu/scaled_matmul.h"
#include "patchbay/plugin.h"
#include "patchbay/scale_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, w8a8_matmul, (const ScaledMatmulArgs&, gpu::Stream))  // w8a8.cu

namespace {

constexpr const char* kName = "w8a8";
constexpr float kLargestCode = 127.0f;

constexpr KernelInfo kKernels[] = {
    {"decode", "cpu", "both", "floats of both sides' codes, multiplied in fp32: the definition"},
    {"integer", "cpu", "both", "multiplies bytes and sums integers over the whole row; the scales come once, at the end"},
    {"naive", "cuda", "both", "a thread per output, a product per instruction; the sum is an integer, exact: any shape"},
    {"tensor_core", "cuda", "both", "16 x 32 by 32 x 8 bytes per instruction, sums in 32 bits (needs a multiple of 16 columns)"},
    {"gemv", "cuda", "decode", "a warp per row, 16 bytes per load, four products per instruction (needs a multiple of 16 columns)"},
};

/// (W3)
std::int32_t code_of(float w, float scale) { return static_cast<std::int32_t>(std::nearbyint(std::clamp(w / scale, -kLargestCode, kLargestCode))); }

struct Int8Grid final : Grid {
  std::vector<float> scales;  // one per row
  void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
    for (std::int64_t r = 0; r < values.shape[0]; ++r) {
      codes[r] = code_of(values[r], scales[r]);
      decoded[r] = scales[r] * static_cast<float>(codes[r]);
    }
  }
};

class W8A8 final : public WeightFormat, public RoundsInputs {
 public:
  struct Params {
    std::string scales = "channel", activations = "token";
    KernelChoice kernel;
    void visit(Fields& f) {
      f.choice("scales", scales, {"tensor", "channel"}, {"weights that share a scale: all, or a row (an output channel)"});
      f.choice("activations", activations, {"token", "tensor", "static"},
               {"inputs that share a scale. token: each token's own largest; tensor: the largest of all tokens of a step, so that a token's "
                "result depends on the batch; static: one for all, from calibration"});
      f.kernel("kernel", kernel, kKernels, {"how the packed weight is multiplied"});
    }
    void check() const { require_one_kernel(kernel, kKernels, kName); }
  };
  explicit W8A8(const Params& params) : params_(params) {}

  std::string label() const override { return std::string(kName) + "/" + params_.scales + "/a-" + params_.activations; }
  std::int64_t tile_columns(std::int64_t cols) const override { return cols; }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, kName);
    std::vector<PartSpec> parts = {{"codes", DType::i8, {rows, cols}}, {"scales", DType::f32, {one_scale() ? 1 : rows}}};
    if (is_static()) parts.push_back({"input_scale", DType::f32, {1}});
    return parts;
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, kName);
    const std::vector<float> importance = column_importance(options.importance, tile.shape[1], kName);
    const std::int64_t rows = tile.shape[0], together = one_scale() ? rows : 1;
    auto grid = std::make_unique<Int8Grid>();
    for (std::int64_t r = 0; r < rows; r += together) {
      const auto sharing = tile.rows(r, r + together);
      grid->scales.insert(grid->scales.end(), together, options.search ? best_scale(sharing, importance) : covering_scale(sharing, kLargestCode));  // (W2)
    }
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& scales = dynamic_cast<const Int8Grid&>(grid).scales;
    for (std::int64_t r = 0; r < out.rows; ++r)
      for (std::int64_t c = 0; c < codes.shape[1]; ++c) codes_of(out)(r, first_column + c) = static_cast<std::int8_t>(codes(r, c));
    for (std::int64_t i = 0; i < scales_of(out).shape[0]; ++i) scales_of(out)[i] = scales[i];
    if (is_static()) store_static_scale(input_scale_, first_column, out.parts[2], out);
  }

  /// (W1)
  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    for (std::int64_t r = 0; r < out.shape[0]; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) out(r, c) = scale_of(w, first_row + r) * static_cast<float>(codes_of(w)(first_row + r, c));
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode) const override;

  Needs needs() const override { return {.moments = is_static()}; }
  /// (W6)
  std::shared_ptr<WeightFormat> fitted_to(View<const float, 2>, const Statistics& statistics) const override {
    const float scale = is_static() ? static_scale(statistics, kLargestCode) : 0;
    if (scale == 0) return nullptr;
    auto fitted = std::make_shared<W8A8>(params_);
    fitted->input_scale_ = scale;
    return fitted;
  }
  std::optional<RowRounding> input_rounding() const override {
    using enum RowRounding::Scale;
    return RowRounding{DType::i8, params_.activations == "tensor" ? tensor : is_static() ? given : token, 0};
  }

 private:
  bool one_scale() const { return params_.scales == "tensor"; }
  bool is_static() const { return params_.activations == "static"; }

  /// (W4) The covering scale, shrunk: the largest weights are cut, the others get a finer step.
  static float best_scale(View<const float, 2> w, const std::vector<float>& importance) {
    const float covering = covering_scale(w, kLargestCode);
    std::vector<float> others;
    for (int percent = 98; percent > 30; percent -= 2) others.push_back(covering * static_cast<float>(percent) / 100);
    return searched_scale(w, importance, covering, others, [](float weight, float scale) { return scale * static_cast<float>(code_of(weight, scale)); });
  }

  RowRounding rounding_with(const PackedWeight& w) const {
    return is_static() ? with_stored_scale(*input_rounding(), w.parts[2].as<const float, 1>()[0]) : *input_rounding();
  }
  float scale_of(const PackedWeight& w, std::int64_t row) const { return scales_of(w)[one_scale() ? 0 : row]; }
  static View<std::int8_t, 2> codes_of(const PackedWeight& w) { return w.parts[0].as<std::int8_t, 2>(); }
  static View<float, 1> scales_of(const PackedWeight& w) { return w.parts[1].as<float, 1>(); }

  Params params_;
  float input_scale_ = 0;  // static; 0: no statistics
};

/// (W5) on the host.
class IntegerProducts final : public LinearKernel, public RoundsInputs {
 public:
  IntegerProducts(std::string label, const RowRounding& rounding, View<const std::int8_t, 2> codes, View<const float, 1> scales, Ops& ops)
      : label_(std::move(label)), rounding_(rounding), weight_(int8_products(ops).prepare_int8(codes, scales)), ops_(ops) {}
  void run(Activation& x, TensorRef y) override {
    int8_products(ops_).matmul_int8(rounded(x, ops_, rounding_), *weight_, y);
  }
  std::optional<RowRounding> input_rounding() const override { return rounding_; }
  std::string path() const override { return label_ + ":integer/" + std::string(ops_.kernel()); }

 private:
  std::string label_;
  RowRounding rounding_;
  std::unique_ptr<AffineWeight> weight_;
  Ops& ops_;
};

std::unique_ptr<LinearKernel> W8A8::prepare(const PackedWeight& w, Ops& ops, ActivationMode) const {
  const RowRounding rounding = rounding_with(w);
  if (!ops.device().is_host()) {
    const auto multiply = gpu::pick(gpu_launchers::w8a8_matmul, gpu::world_of(ops.device()));
    const bool one = one_scale();
    return gpu_linear(label(), w, ops, kKernels, params_.kernel,
                      [=](const MatmulArgs& args, const float* token_scales, gpu::Stream stream) { multiply({args, token_scales, one}, stream); }, rounding);
  }
  if (host_kernel(params_.kernel, kKernels, label()).name == "decode") return decode_then_multiply(*this, w, ops, rounding);
  std::vector<float> scales(static_cast<std::size_t>(w.rows));
  for (std::int64_t r = 0; r < w.rows; ++r) scales[r] = scale_of(w, r);
  return std::make_unique<IntegerProducts>(label(), rounding, codes_of(w), View<const float, 1>(scales.data(), {w.rows}), ops);
}

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, W8A8, "w8a8", "int8 weights and int8 inputs: products of bytes, sums of integers, scales at the end",
                "Dettmers et al. 2022 (arXiv:2208.07339); Xiao et al. 2023 (SmoothQuant, arXiv:2211.10438)")

}  // namespace patchbay
