// The mixes of GGUF files ("Q4_K_M"): every matrix gets one of the block formats, by where it stands in the model. mix_rules.h.
#include "mix_rules.h"
#include "patchbay/format_kit.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

constexpr const char* kName = "gguf_mix";
constexpr KernelInfo kMixKernels[] = {
    kDecodeKernel, {"auto", "cpu", "both", "what each type takes by itself: integer products where it has them"},
    kGpuPackedNaive, kGpuPackedTensorCore, kGpuPackedGemv};

/// A weight of one of the mix's types, multiplied under the mix's name. Kernels refer to their format, so it is kept.
class NamedKernel final : public LinearKernel {
 public:
  NamedKernel(std::string mix, std::shared_ptr<WeightFormat> format, const PackedWeight& w, Ops& ops, ActivationMode mode)
      : mix_(std::move(mix)), format_(std::move(format)), kernel_(format_->prepare(w, ops, mode)) {}
  void run(Activation& x, TensorRef y) override { kernel_->run(x, y); }
  std::string path() const override { return mix_ + ":" + kernel_->path(); }
  bool takes_rows() const override { return kernel_->takes_rows(); }
  void take_rows(TensorRef ids, TensorRef out) override { kernel_->take_rows(ids, out); }

 private:
  std::string mix_;
  std::shared_ptr<WeightFormat> format_;
  std::unique_ptr<LinearKernel> kernel_;
};

/// Its work is for_tensor(). For a matrix of which nothing but its columns is known, it is the mix's main type.
class GgufMix final : public WeightFormat {
 public:
  /// Mixes whose name is no format's: format.type=q4_k_m is short for {type: gguf_mix, mix: q4_k_m}.
  static constexpr std::string_view kAliasNames[] = {"q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m"};
  static constexpr PluginAliases kAliases{"mix", kAliasNames};

  struct Params {
    std::string mix = "q4_k_m";
    bool strict = false;
    KernelChoice kernel;

    void visit(Fields& f) {
      f.choice("mix", mix, {"q2_k", "q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q4_0", "q4_1", "q5_0",
                            "q5_1", "q8_0", "iq4_nl", "iq4_xs"}, {"the file type of llama.cpp"});
      f.boolean("strict", strict, {"a row that a tensor's type does not divide is an error, not another type"});
      f.kernel("kernel", kernel, kMixKernels, {"how the packed weights are multiplied"});
    }
    void check() const { require_one_kernel(kernel, kMixKernels, kName); }
  };
  explicit GgufMix(const Params& params) : params_(params), mix_(mix_named(params.mix)) {}

  std::shared_ptr<WeightFormat> for_tensor(const TensorFacts& tensor) const override {
    const std::string_view wanted = wanted_type(mix_, tensor), type = type_for_columns(wanted, tensor.cols);
    if (params_.strict && type != wanted) refuse(tensor, wanted, type);
    return format(type);
  }

  std::string label() const override { return std::string(kName) + "/" + params_.mix; }
  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override { return main_for(cols)->layout(rows, cols); }
  std::int64_t tile_columns(std::int64_t cols) const override { return main_for(cols)->tile_columns(cols); }
  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    return main_for(tile.shape[1])->fit(tile, options);  // a tile is as wide as a block
  }
  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    main_for(out.cols)->pack(grid, first_column, codes, out);
  }
  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override { main_for(w.cols)->decode(w, first_row, out); }
  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const override {
    return std::make_unique<NamedKernel>(label(), main_for(w.cols), w, ops, mode);
  }

 private:
  std::shared_ptr<WeightFormat> main_for(std::int64_t cols) const {
    return format(params_.strict ? mix_.main : type_for_columns(mix_.main, cols));
  }

  /// fp16 has kernels of its own names, so the mix's are not its own.
  std::shared_ptr<WeightFormat> format(std::string_view type) const {
    Settings kernels;
    kernels.kind = Settings::Kind::map;
    for (const auto& [phase, kernel] : {std::pair{"prefill", params_.kernel.prefill}, std::pair{"decode", params_.kernel.decode}})
      if (!kernel.empty() && kernel != "auto") kernels.entries.emplace_back(phase, text(kernel));
    Settings settings;
    settings.kind = Settings::Kind::map;
    if (!kernels.entries.empty() && type != "fp16") settings.entries.emplace_back("kernel", kernels);
    return make<WeightFormat>({std::string(type), std::make_shared<const Settings>(std::move(settings))});
  }
  static Settings text(std::string value) {
    Settings scalar;
    scalar.kind = Settings::Kind::scalar;
    scalar.text = std::move(value);
    return scalar;
  }

  [[noreturn]] static void refuse(const TensorFacts& tensor, std::string_view wanted, std::string_view type) {
    const std::string width = std::to_string(block_columns(wanted));
    throw Error("tensor " + std::string(tensor.name),
                std::string(wanted) + " has blocks of " + width + " columns, which do not divide a row of " + std::to_string(tensor.cols) +
                    ", and strict is true", "a multiple of " + width + " columns",
                "set strict to false: llama.cpp's mix takes " + std::string(type) + " here; or give this tensor a format by a rule");
  }

  Params params_;
  const Mix& mix_;
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, GgufMix, "gguf_mix", "a GGUF file type such as Q4_K_M: each matrix gets a block format by where it stands in the model",
                "llama.cpp: file types of its quantiser")

}  // namespace patchbay
