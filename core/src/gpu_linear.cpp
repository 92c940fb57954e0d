// A weight on a GPU and the kernels that multiply it.
#include "patchbay/gpu_linear.h"

#include <dlfcn.h>

#include <array>
#include <utility>

#include "patchbay/rounded_inputs.h"

namespace patchbay {
namespace {

MatmulKernel kernel_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, MatmulKernel>, 7> kNames = {{{"naive", MatmulKernel::naive},
                                                                                {"tiled", MatmulKernel::tiled},
                                                                                {"vectorised", MatmulKernel::vectorised},
                                                                                {"gemv", MatmulKernel::gemv},
                                                                                {"cublas", MatmulKernel::cublas},
                                                                                {"dequantised", MatmulKernel::dequantised},
                                                                                {"tensor_core", MatmulKernel::tensor_core}}};
  for (const auto& [known, kernel] : kNames)
    if (known == name) return kernel;
  throw Error("kernel " + std::string(name), "is in a table of kernels, but no kernel of products on a GPU");
}

class GpuLinear final : public LinearKernel, public RoundsInputs {
 public:
  GpuLinear(std::string label, const PackedWeight& w, Ops& ops, const KernelInfo& prefill, const KernelInfo& decode,
            RoundedLaunch launch, bool plain, const std::optional<RowRounding>& rounding)
      : label_(std::move(label)),
        w_(upload(w, ops.device())),
        ops_(ops),
        prefill_(prefill.name),
        decode_(decode.name),
        kernels_{kernel_named(prefill_), kernel_named(decode_)},
        launch_(std::move(launch)),
        plain_(plain),
        rounding_(rounding) {}

  void run(Activation& x, TensorRef y) override {
    const std::int64_t tokens = x.rows();
    if (tokens == 0) return;
    const RoundedRows codes = rounding_ ? rounded(x, ops_, *rounding_) : RoundedRows{x.values(), {}};
    const TensorRef& input = codes.codes;
    require_dense(input, w_.cols);
    require_dense(y, w_.rows);
    MatmulArgs args = arguments(tokens > kDecodeTokens ? kernels_.first : kernels_.second, tokens, y);
    args.x = input.data;
    args.x_type = input.dtype;
    launch_(args, static_cast<const float*>(codes.scales.data), gpu::stream_of(ops_.device()));
  }
  std::optional<RowRounding> input_rounding() const override { return rounding_; }
  std::string path() const override {
    return label_ + ":" + prefill_ + (decode_ == prefill_ ? "" : "+" + decode_) + "/" + std::string(ops_.kernel());
  }
  bool takes_rows() const override { return true; }
  void take_rows(TensorRef ids, TensorRef out) override {
    if (plain_) return ops_.take_rows(w_.parts[0], ids, out);
    if (ids.shape[0] == 0) return;
    require_dense(out, w_.cols);
    MatmulArgs args = arguments(MatmulKernel::take_rows, ids.shape[0], out);
    args.ids = ids.as<const std::int32_t, 1>().data;
    launch_(args, nullptr, gpu::stream_of(ops_.device()));
  }

 private:
  MatmulArgs arguments(MatmulKernel kernel, std::int64_t tokens, const TensorRef& y) const {
    MatmulArgs args;
    args.kernel = kernel;
    for (std::size_t i = 0; i < w_.parts.size(); ++i) args.parts[i] = w_.parts[i].data;
    args.y = y.data;
    args.y_type = y.dtype;
    args.tokens = static_cast<int>(tokens);
    args.rows = static_cast<int>(w_.rows);
    args.cols = static_cast<int>(w_.cols);
    return args;
  }
  /// A fault of the caller, never of a user.
  void require_dense(const TensorRef& tensor, std::int64_t cols) const {
    if (tensor.rank == 2 && tensor.shape[1] == cols && tensor.strides[1] == 1 &&
        (tensor.strides[0] == cols || tensor.shape[0] == 1))
      return;
    throw Error(label_, "a product on a GPU meets a tensor that is no dense array of " + std::to_string(cols) + " columns");
  }

  std::string label_;
  PackedWeight w_;
  Ops& ops_;
  std::string prefill_, decode_;
  std::pair<MatmulKernel, MatmulKernel> kernels_;
  RoundedLaunch launch_;
  bool plain_;
  std::optional<RowRounding> rounding_;
};

}  // namespace

bool finds_cublas() {
  static const bool found = [] {
    if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); !driver || dlclose(driver) != 0) return false;  // no GPU: it has nothing to run on
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return dlclose(library) == 0;
    return false;
  }();
  return found;
}

namespace {

std::unique_ptr<LinearKernel> made(std::string label, const PackedWeight& w, Ops& ops, std::span<const KernelInfo> kernels, const KernelChoice& choice,
                                   RoundedLaunch launch, bool plain, const std::optional<RowRounding>& how) {
  const KernelInfo& prefill = pick_kernel(choice.prefill, kernels, label, "prefill", "cuda");
  const KernelInfo& decode = pick_kernel(choice.decode, kernels, label, "decode", "cuda");
  return std::make_unique<GpuLinear>(std::move(label), w, ops, prefill, decode, std::move(launch), plain, how);
}

}  // namespace

std::unique_ptr<LinearKernel> gpu_linear(std::string label, const PackedWeight& w, Ops& ops, std::span<const KernelInfo> kernels,
                                         const KernelChoice& choice, std::function<void(const MatmulArgs&, gpu::Stream)> launch,
                                         bool plain) {
  const auto of_activations = [launch = std::move(launch)](const MatmulArgs& args, const float*, gpu::Stream stream) { launch(args, stream); };
  return made(std::move(label), w, ops, kernels, choice, of_activations, plain, {});
}
std::unique_ptr<LinearKernel> gpu_linear(std::string label, const PackedWeight& w, Ops& ops, std::span<const KernelInfo> kernels,
                                         const KernelChoice& choice, RoundedLaunch launch, const std::optional<RowRounding>& how) {
  return made(std::move(label), w, ops, kernels, choice, std::move(launch), false, how);
}

}  // namespace patchbay
