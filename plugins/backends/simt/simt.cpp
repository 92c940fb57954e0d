// Backend simt: the kernels of backend cuda, run by the emulator on the CPU. Slow, and every step of it can be looked at.
#include "gpu_backend.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Simt final : public GpuBackend {
 public:
  struct Params {
    GpuParams common;
    bool checked = false;
    int threads = 0;
    std::string architecture = "sm_90";
    void visit(Fields& f) {
      common.visit(f);
      f.boolean("checked", checked,
                {"run under the emulator's checks: races, bounds, uninitialised memory; a few times slower"});
      f.integer("threads", threads, 0, 1024,
                {"threads of the CPU among which the blocks of a launch are dealt; 0: PATCHBAY_SIMT_THREADS, or every core this process may use"});
      f.choice("architecture", architecture, {"sm_80", "sm_89", "sm_90"},
               {"whose limits of shared memory and instructions hold: A100 (163 KiB a block), RTX 4090 and L4 (99 KiB), H100 and H200 (227 KiB)"});
    }
    void check() const { common.check(); }
  };
  explicit Simt(const Params& params) : Simt(params, gpu::ScopedOptions(options(params))) {}

 private:
  /// The device's stream keeps the options that are in force while it is made.
  Simt(const Params& params, const gpu::ScopedOptions&)
      : GpuBackend(params.checked ? gpu::World::simt_checked : gpu::World::simt,
                   {params.checked ? DeviceKind::simt_checked : DeviceKind::simt, params.common.type(), 0},
                   (params.checked ? "simt_checked/" : "simt/") + params.common.type_name(), params.common.kernels) {}

  static gpu::EmulatorOptions options(const Params& params) {
    gpu::EmulatorOptions options = gpu::emulator_options();
    if (params.threads > 0)
      options.os_threads = params.threads;
    else if (!options.os_threads_given)
      options.os_threads = allowed_cores();
    options.architecture = std::stoi(params.architecture.substr(3));
    return options;
  }
};

}  // namespace
}  // namespace patchbay

PATCHBAY_PLUGIN(patchbay::Backend, patchbay::Simt, "simt", "The CUDA kernels, run by an emulator on the CPU; no GPU needed", "")
