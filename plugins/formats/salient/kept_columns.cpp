// What the kept columns add to the inner format's product, on the host and on a GPU. Formula (K4): README.md.
#include "kept_columns.h"

#include <utility>

#include "patchbay/gpu_linear.h"
#include "salient_gpu.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, salient_add, (const KeptColumnsArgs&, gpu::Stream))  // salient.cu

namespace {

class KeptOnHost final : public LinearKernel {
 public:
  KeptOnHost(std::string path, std::unique_ptr<LinearKernel> inner, KeptColumns kept, Ops& ops)
      : path_(std::move(path)), inner_(std::move(inner)), kept_(std::move(kept)), ops_(ops) {}

  void run(Activation& x, TensorRef y) override {
    inner_->run(x, y);
    const auto count = static_cast<std::int64_t>(kept_.columns.size());
    const auto inputs = x.values().as<const float, 2>();
    const auto outputs = y.as<float, 2>();
    ops_.device().parallel_for(outputs.shape[1], 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t t = 0; t < outputs.shape[0]; ++t) {
          float sum = 0;
          for (std::int64_t k = 0; k < count; ++k) sum += inputs(t, kept_.columns[k]) * kept_.differences[r * count + k];
          outputs(t, r) += sum;
        }
    });
  }
  std::string path() const override { return path_; }

 private:
  std::string path_;
  std::unique_ptr<LinearKernel> inner_;
  KeptColumns kept_;
  Ops& ops_;
};

class KeptOnGpu final : public LinearKernel {
 public:
  KeptOnGpu(std::string path, std::unique_ptr<LinearKernel> inner, const KeptColumns& kept, Device& device)
      : path_(std::move(path)), inner_(std::move(inner)), device_(device), add_(gpu::pick(gpu_launchers::salient_add, gpu::world_of(device))) {
    const auto count = static_cast<std::int64_t>(kept.columns.size()), all = static_cast<std::int64_t>(kept.differences.size());
    if (count == 0) return;
    columns_ = device.allocate(count * bytes_of(DType::i32));
    differences_ = device.allocate(all * bytes_of(DType::f32));
    device.copy(View<const std::int32_t, 1>(kept.columns.data(), {count}), columns_.tensor(DType::i32, {count}));
    device.copy(View<const float, 1>(kept.differences.data(), {all}), differences_.tensor(DType::f32, {all}));
  }

  void run(Activation& x, TensorRef y) override {
    inner_->run(x, y);
    const TensorRef input = x.values();
    if (input.shape[0] == 0 || columns_.size() == 0) return;
    KeptColumnsArgs args{input.data, input.dtype, columns_.view<const std::int32_t, 1>({1}).data, differences_.view<const float, 1>({1}).data, y.data, y.dtype};
    args.tokens = static_cast<int>(input.shape[0]);
    args.rows = static_cast<int>(y.shape[1]);
    args.cols = static_cast<int>(input.shape[1]);
    args.kept = static_cast<int>(columns_.size() / bytes_of(DType::i32));
    add_(args, gpu::stream_of(device_));
  }
  std::string path() const override { return path_; }

 private:
  std::string path_;
  std::unique_ptr<LinearKernel> inner_;
  Device& device_;
  void (*add_)(const KeptColumnsArgs&, gpu::Stream);
  Buffer columns_, differences_;
};

}  // namespace

std::unique_ptr<LinearKernel> with_kept_columns(std::string path, std::unique_ptr<LinearKernel> inner, KeptColumns kept, Ops& ops) {
  if (!ops.device().is_host()) return std::make_unique<KeptOnGpu>(std::move(path), std::move(inner), kept, ops.device());
  return std::make_unique<KeptOnHost>(std::move(path), std::move(inner), std::move(kept), ops);
}

}  // namespace patchbay
