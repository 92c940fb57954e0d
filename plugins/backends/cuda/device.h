/// @file device.h
/// A GPU, or the emulator in its place, as a Device: memory, copies, one stream, graphs.
#pragma once
#include <memory>
#include <string>

#include "patchbay/backend.h"
#include "patchbay/gpu.h"

namespace patchbay {

struct GpuOptions {
  DeviceKind kind = DeviceKind::simt;
  DType activations = DType::f16;
  int ordinal = 0;  ///< which GPU
};

/// device_name: what is at hand ("NVIDIA H200, sm_90"; "emulated, sm_90"). @throws Error when there is none.
PATCHBAY_GPU_LAUNCHER(std::unique_ptr<Device>, make_gpu_device, (const GpuOptions& options, std::string& device_name))

}  // namespace patchbay
