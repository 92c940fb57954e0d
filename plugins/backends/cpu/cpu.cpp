// Backend cpu: host memory, a pool of threads, and three sets of kernels of which the best that the machine has is taken.
#include "device.h"
#include "ops.h"
#include "patchbay/plugin.h"

namespace patchbay::cpu {
namespace {

bool always() { return true; }
#if defined(__x86_64__)
// __builtin_cpu_supports also asks whether the operating system saves the registers.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}
#endif

constexpr KernelInfo kKernels[] = {
    {"plain", "cpu", "both", "loops as the formulas read, one product at a time", always},
#if defined(__x86_64__)
    {"avx2", "cpu", "both",
     "8 rows side by side in a vector, products of bytes summed in 16 bits as far as they fit; the weight is unpacked once for "
     "several tokens", has_avx2},
    {"avx512_vnni", "cpu", "both",
     "16 rows side by side; four byte products and their sum in one instruction (vpdpbusd); twice the registers, so more tokens "
     "per unpacking", has_avx512_vnni},
#endif
};

const KernelSet& kernel_set(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return avx2_kernels();
  if (name == "avx512_vnni") return avx512_vnni_kernels();
#endif
  return plain_kernels();
}

class CpuBackend : public Backend {
 public:
  struct Params {
    KernelChoice kernel;
    int threads = 0;
    void visit(Fields& f) {
      f.kernel("kernel", kernel, kKernels, {"kernel set of all operations, the same for prefill and decode"});
      f.integer("threads", threads, 0, 1024, {"threads of the loops, the caller included; 0: every core this process may use"});
    }
    void check() const {
      if (kernel.prefill != kernel.decode) {
        throw Error("backend cpu: kernel", "prefill: " + kernel.prefill + " and decode: " + kernel.decode + " differ",
                    "one name for both", "weights are packed for one kernel set");
      }
    }
  };

  explicit CpuBackend(const Params& params)
      : device_(params.threads == 0 ? allowed_cores() : params.threads),
        ops_(device_, kernel_set(pick_kernel(params.kernel.prefill, kKernels, "backend cpu", "prefill").name)) {}
  Device& device() override { return device_; }
  Ops& ops() override { return ops_; }

 private:
  CpuDevice device_;
  CpuOps ops_;
};

}  // namespace
}  // namespace patchbay::cpu

PATCHBAY_PLUGIN(patchbay::Backend, patchbay::cpu::CpuBackend, "cpu",
                "The host's cores, with kernels chosen at run time by cpuid", "")
