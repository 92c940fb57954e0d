/// @file gpu_backend.h
/// What the backends cuda and simt share: a device of theirs and the operations on it.
#pragma once
#include <memory>
#include <string>

#include "device.h"
#include "gpu_kernels.h"
#include "gpu_ops.h"
#include "patchbay/gpu_device.h"
#include "patchbay/params.h"

namespace patchbay {

/// Parameters of both.
struct GpuParams {
  std::string activations = "auto";
  GpuKernels kernels;
  void visit(Fields& f) {
    f.choice("activations", activations, {"auto", "fp16", "bf16"},
             {"number type of all activations; sums are fp32. auto: bf16 for models that were trained in it, else fp16"});
    f.group("kernels", [this](Fields& group) { kernels.visit(group); }, {"how each dense operation is computed"});
  }
  void check() const { kernels.check(); }
  /// auto, where no model has settled it, is fp16.
  DType type() const { return activations == "bf16" ? DType::bf16 : DType::f16; }
  std::string type_name() const { return type() == DType::bf16 ? "bf16" : "fp16"; }
};

class GpuBackend : public Backend {
 public:
  GpuBackend(gpu::World world, const GpuOptions& options, std::string name, const GpuKernels& kernels)
      : device_(gpu::pick(gpu_launchers::make_gpu_device, world)(options, device_name_)), ops_(*device_, std::move(name), kernels) {}
  Device& device() override { return *device_; }
  Ops& ops() override { return ops_; }

 private:
  std::string device_name_;
  std::unique_ptr<Device> device_;
  GpuOps ops_;
};

}  // namespace patchbay
