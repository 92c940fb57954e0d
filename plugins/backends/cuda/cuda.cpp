// Backend cuda: an NVIDIA GPU. The library loads without a driver; making the backend then says what is missing.
#include "gpu_backend.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Cuda final : public GpuBackend {
 public:
  struct Params {
    GpuParams common;
    int gpu = 0;
    void visit(Fields& f) {
      common.visit(f);
      f.integer("gpu", gpu, 0, 63, {"which GPU, as nvidia-smi counts"});
    }
    void check() const { common.check(); }
  };
  explicit Cuda(const Params& params)
      : GpuBackend(world(), {DeviceKind::cuda, params.common.type(), params.gpu}, "cuda/" + params.common.type_name(),
                   params.common.kernels) {}

 private:
  static gpu::World world() {
#if !defined(PATCHBAY_CUDA)
    throw Error("backend cuda", "this build has no code for GPUs", {},
                "build with nvcc (cmake --preset cuda), or run on device simt, which runs the same kernels on the CPU");
#endif
    return gpu::World::cuda;
  }
};

}  // namespace
}  // namespace patchbay

PATCHBAY_PLUGIN(patchbay::Backend, patchbay::Cuda, "cuda", "An NVIDIA GPU: weights, cache and activations in its memory", "")
