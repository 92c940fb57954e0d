// Clocks and copies of a device, in the worlds of this build: what bench_gpu measures with.
#pragma once
#include <functional>
#include <string>

#include "patchbay/gpu/host.h"

namespace patchbay {

/// Seconds that the device takes for what `work` gives to the stream, by events before and after.
PATCHBAY_GPU_LAUNCHER(double, bench_seconds, (gpu::Stream stream, const std::function<void()>& work))
/// A copy within device memory by a kernel of 16-byte loads, a few in flight per thread. `bytes`: a multiple of 16.
PATCHBAY_GPU_LAUNCHER(void, bench_copy, (void* to, const void* from, std::size_t bytes, gpu::Stream stream))
/// A name, and figures of the device as the driver gives them: JSON.
PATCHBAY_GPU_LAUNCHER(std::string, bench_device, (int ordinal))

}  // namespace patchbay
