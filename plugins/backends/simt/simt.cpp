// Backend simt: the kernels of backend cuda, run by the emulator on the CPU. Slow, and every step of it can be looked at.
#include <sched.h>

#include <thread>

#include "gpu_backend.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

int allowed_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

class Simt final : public GpuBackend {
 public:
  struct Params {
    GpuParams common;
    bool checked = false;
    int threads = 0;
    void visit(Fields& f) {
      common.visit(f);
      f.boolean("checked", checked,
                {"run under the emulator's checks: races, bounds, uninitialised memory; a few times slower"});
      f.integer("threads", threads, 0, 1024, {"threads of the CPU among which the blocks of a launch are dealt; 0: every core this process may use"});
    }
    void check() const { common.check(); }
  };
  explicit Simt(const Params& params)
      : GpuBackend(params.checked ? gpu::World::simt_checked : gpu::World::simt,
                   {params.checked ? DeviceKind::simt_checked : DeviceKind::simt, params.common.type(), 0},
                   (params.checked ? "simt_checked/" : "simt/") + params.common.activations, params.common.kernels) {
    gpu::emulator_options().os_threads = params.threads > 0 ? params.threads : allowed_cores();
  }
};

}  // namespace
}  // namespace patchbay

PATCHBAY_PLUGIN(patchbay::Backend, patchbay::Simt, "simt", "The CUDA kernels, run by an emulator on the CPU; no GPU needed", "")
