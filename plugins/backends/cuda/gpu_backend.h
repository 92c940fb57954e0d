/// @file gpu_backend.h
/// What the backends cuda and simt share: a device of theirs and the operations on it.
#pragma once
#include <memory>
#include <string>

#include "device.h"
#include "gpu_ops.h"
#include "patchbay/gpu_device.h"
#include "patchbay/params.h"

namespace patchbay {

/// Parameters of both.
struct GpuParams {
  std::string activations = "fp16";
  void visit(Fields& f) {
    f.choice("activations", activations, {"fp16", "bf16"}, {"number type of all activations; sums are fp32"});
  }
  DType type() const { return activations == "bf16" ? DType::bf16 : DType::f16; }
};

class GpuBackend : public Backend {
 public:
  GpuBackend(gpu::World world, const GpuOptions& options, std::string name)
      : device_(gpu::pick(gpu_launchers::make_gpu_device, world)(options, device_name_)), ops_(*device_, std::move(name)) {}
  Device& device() override { return *device_; }
  Ops& ops() override { return ops_; }

 private:
  std::string device_name_;
  std::unique_ptr<Device> device_;
  GpuOps ops_;
};

}  // namespace patchbay
