/// @file profiler.h
/// Counts what kernels of the world simt_checked do.
///
///     gpu::Profiler profiler;
///     gpu::pick(gpu_launchers::gemm, gpu::World::simt_checked)(...);
///     for (const gpu::KernelCounters& launch : profiler.launches()) ...
#pragma once
#include <memory>
#include <vector>

#include "gpu/counters.h"

namespace patchbay::gpu {

/// While it lives it counts every checked launch of the OS thread that made it. One at a time.
class PATCHBAY_API Profiler {
 public:
  Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();
  /// The launches that have ended without an error, in their order.
  /// Waits for all work of the device. @throws the Error of a launch that failed
  const std::vector<KernelCounters>& launches() const;
  void clear();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace patchbay::gpu
