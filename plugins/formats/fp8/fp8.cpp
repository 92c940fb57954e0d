// 8-bit floats, e4m3 or e5m2, with a scale per tensor, row or group; inputs in 16 bits or more, or rounded to the same 8-bit floats.
// Formulas (P1)...(P6): README.md.
#include "patchbay/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "fp8_decode.h"
#include "fp8_gpu.h"
#include "patchbay/eight_bit_scales.h"
#include "patchbay/format_kit.h"
#include "patchbay/plugin.h"
#include "patchbay/scale_search.h"

namespace patchbay {
namespace {

constexpr const char* kName = "fp8";

constexpr KernelInfo kKernels[] = {
    {"decode", "cpu", "both", "decodes blocks of rows to floats and multiplies those, eight codes at a time where the machine has AVX2"},
    {"naive", "cuda", "both", "a thread per output decodes its whole row: any shape"},
    {"dequantised", "cuda", "both",
     "tensor cores multiply 16-bit numbers, which hold every 8-bit float exactly; codes are widened on their way into shared memory (needs a "
     "multiple of 16 columns)"},
    {"tensor_core", "cuda", "both",
     "where inputs are 8-bit floats too and each row has one scale, tensor cores multiply the codes themselves: twice as many per "
     "instruction (sm_89); else as dequantised"},
    {"gemv", "cuda", "decode", "decodes in registers, a block's threads side by side along four rows"},
};

/// (P1) of one code.
struct Numbers {
  std::array<float, 256> values;
  explicit Numbers(const Fp8Format& format) {
    for (int code = 0; code < 256; ++code) values[code] = decode_fp8(static_cast<unsigned char>(code), format);
  }
};

struct Fp8Grid final : Grid {
  const Fp8Format& format;
  std::vector<float> scales;  // one per row
  explicit Fp8Grid(const Fp8Format& f) : format(f) {}
  /// (P3)
  void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
    for (std::int64_t r = 0; r < values.shape[0]; ++r) {
      const unsigned char code = encode_fp8(values[r] / scales[r], format);
      codes[r] = code;
      decoded[r] = scales[r] * decode_fp8(code, format);
    }
  }
};

bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
#else
  return false;
#endif
}

class Fp8 final : public WeightFormat, public RoundsInputs {
 public:
  struct Params {
    std::string variant = "e4m3", scales = "channel", activations = "none";
    int group_size = 128;
    KernelChoice kernel;
    void visit(Fields& f) {
      f.choice("variant", variant, {"e4m3", "e5m2"}, {"4 bits of precision up to 448, or 3 up to 57344"});
      f.choice("scales", scales, {"tensor", "channel", "group"}, {"weights that share a scale: all, a row (an output channel), or group_size of a row"});
      f.integer("group_size", group_size, 1, 1 << 20, {"weights of a row that share a scale, with scales: group"});
      f.choice("activations", activations, {"none", "token", "tensor", "static"},
               {"none: inputs are as the run's activations. Else rounded to the same 8-bit floats, by a scale: each token's own; one of all tokens "
                "of a step, so that a token's result depends on the batch; or one from calibration"});
      f.kernel("kernel", kernel, kKernels, {"how the packed weight is multiplied"});
    }
    void check() const { require_one_kernel(kernel, kKernels, kName); }
  };
  explicit Fp8(const Params& params) : params_(params), format_(params.variant == "e4m3" ? kE4M3 : kE5M2), numbers_(format_) {}

  std::string label() const override {
    const std::string shared = by_group() ? "g" + std::to_string(params_.group_size) : params_.scales;
    return std::string(kName) + "/" + params_.variant + "/" + shared + (params_.activations == "none" ? "" : "/a-" + params_.activations);
  }
  std::int64_t tile_columns(std::int64_t cols) const override { return by_group() ? params_.group_size : cols; }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, kName);
    if (cols % tile_columns(cols) != 0)
      throw Error("fp8: group_size", "groups of " + std::to_string(params_.group_size) + " do not divide a row of " + std::to_string(cols),
                  "a divisor of " + std::to_string(cols), "set group_size, or scales: channel");
    std::vector<PartSpec> parts = {{"codes", code_type(), {rows, cols}}, {"scales", DType::f32, {params_.scales == "tensor" ? 1 : rows}}};
    if (by_group()) parts[1].shape = {rows, cols / params_.group_size};
    if (is_static()) parts.push_back({"input_scale", DType::f32, {1}});
    return parts;
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, kName);
    const std::vector<float> importance = column_importance(options.importance, tile.shape[1], kName);
    const std::int64_t rows = tile.shape[0], together = params_.scales == "tensor" ? rows : 1;
    auto grid = std::make_unique<Fp8Grid>(format_);
    for (std::int64_t r = 0; r < rows; r += together) {
      const auto sharing = tile.rows(r, r + together);
      grid->scales.insert(grid->scales.end(), together, options.search ? best_scale(sharing, importance) : covering_scale(sharing, largest_code()));
    }
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& scales = dynamic_cast<const Fp8Grid&>(grid).scales;
    for (std::int64_t r = 0; r < out.rows; ++r) {
      for (std::int64_t c = 0; c < codes.shape[1]; ++c) row_of(out, r)[first_column + c] = static_cast<std::uint8_t>(codes(r, c));
      scale_at(out, r, first_column) = scales[r];
    }
    if (is_static()) store_static_scale(input_scale_, first_column, out.parts[2], out);
  }

  /// (P1)
  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    const std::int64_t width = tile_columns(w.cols);
    for (std::int64_t r = 0; r < out.shape[0]; ++r)
      for (std::int64_t c = 0; c < w.cols; c += width) decode_group(row_of(w, first_row + r) + c, scale_at(w, first_row + r, c), out, r, c, width);
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode) const override {
    if (!ops.device().is_host()) return prepare_on_gpu(w, ops);
    host_kernel(params_.kernel, kKernels, label());
    const auto rounding = rounding_with(w);
    return rounding ? decode_then_multiply(*this, w, ops, *rounding) : decode_then_multiply(*this, w, ops);
  }

  Needs needs() const override { return {.moments = is_static()}; }
  /// (P6)
  std::shared_ptr<WeightFormat> fitted_to(View<const float, 2>, const Statistics& statistics) const override {
    const float scale = is_static() ? static_scale(statistics, largest_code()) : 0;
    if (scale == 0) return nullptr;
    auto fitted = std::make_shared<Fp8>(params_);
    fitted->input_scale_ = scale;
    return fitted;
  }
  /// (P5)
  std::optional<RowRounding> input_rounding() const override {
    using enum RowRounding::Scale;
    if (params_.activations == "none") return {};
    return RowRounding{code_type(), params_.activations == "tensor" ? tensor : is_static() ? given : token, 0};
  }

 private:
  bool by_group() const { return params_.scales == "group"; }
  bool is_static() const { return params_.activations == "static"; }
  DType code_type() const { return params_.variant == "e4m3" ? DType::f8_e4m3 : DType::f8_e5m2; }

  std::optional<RowRounding> rounding_with(const PackedWeight& w) const {
    const auto rounding = input_rounding();
    return is_static() ? with_stored_scale(*rounding, w.parts[2].as<const float, 1>()[0]) : rounding;
  }
  std::unique_ptr<LinearKernel> prepare_on_gpu(const PackedWeight& w, Ops& ops) const {
    const gpu::World world = gpu::world_of(ops.device());
    const auto multiply = gpu::pick(gpu_launchers::fp8_matmul, world);
    KernelChoice choice = params_.kernel;
    // The best that this GPU has.
    if (choice.prefill.empty() && !gpu::pick(gpu_launchers::fp8_has_products, world)(gpu::stream_of(ops.device()))) choice.prefill = "dequantised";
    const Fp8MatmulArgs shape{{{}, nullptr, params_.scales == "tensor"}, params_.variant == "e5m2", by_group() ? params_.group_size : 0};
    const auto launch = [=](const MatmulArgs& args, const float* token_scales, gpu::Stream stream) {
      Fp8MatmulArgs all = shape;
      all.scaled.product = args;
      all.scaled.token_scales = token_scales;
      multiply(all, stream);
    };
    return gpu_linear(label(), w, ops, kKernels, choice, launch, rounding_with(w));
  }

  /// (P2)
  float largest_code() const { return numbers_.values[format_.largest]; }
  /// (P4) Floats keep their relative error whatever the scale; what changes is where the numbers of an octave fall. So one octave of scales is
  /// tried, and a little below, where the largest weights are cut.
  float best_scale(View<const float, 2> w, const std::vector<float>& importance) const {
    const float covering = covering_scale(w, largest_code());
    std::vector<float> others;
    for (int step = -4; step < 16; ++step) others.push_back(covering * std::exp2(static_cast<float>(step) / 16));
    return searched_scale(w, importance, covering, others,
                          [&](float weight, float scale) { return scale * numbers_.values[encode_fp8(weight / scale, format_)]; });
  }

  void decode_group(const std::uint8_t* codes, float scale, View<float, 2> out, std::int64_t r, std::int64_t first, std::int64_t n) const {
    std::int64_t c = 0;
#if defined(__x86_64__)
    if (has_avx2() && out.strides[1] == 1)
      c = fp8::decode_avx2(codes, n, params_.variant == "e4m3" ? fp8::kWidenE4M3 : fp8::kWidenE5M2, scale, &out(r, first));
#endif
    for (; c < n; ++c) out(r, first + c) = scale * numbers_.values[codes[c]];
  }
  static std::uint8_t* row_of(const PackedWeight& w, std::int64_t row) { return static_cast<std::uint8_t*>(w.parts[0].data) + row * w.cols; }
  /// Of the weight in that row and column.
  float& scale_at(const PackedWeight& w, std::int64_t row, std::int64_t column) const {
    float* const scales = static_cast<float*>(w.parts[1].data);
    if (by_group()) return scales[row * (w.cols / params_.group_size) + column / params_.group_size];
    return scales[params_.scales == "tensor" ? 0 : row];
  }

  Params params_;
  const Fp8Format& format_;
  Numbers numbers_;
  float input_scale_ = 0;  // static; 0: no statistics
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, Fp8, "fp8", "8-bit floats with a scale per tensor, row or group; inputs too, where asked for",
                "Micikevicius et al. 2022 (arXiv:2209.05433)")

}  // namespace patchbay
