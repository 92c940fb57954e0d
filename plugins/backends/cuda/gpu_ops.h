/// @file gpu_ops.h
/// The dense operations of a GPU's backend: the kernels of this folder's .cu files, as YAML chose them, launched on the device's stream.
#pragma once
#include <string>

#include "gpu_kernels.h"
#include "patchbay/backend.h"
#include "patchbay/gpu.h"
#include "patchbay/gpu_device.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {

class GpuOps final : public Ops, public RoundingOps {
 public:
  GpuOps(Device& device, std::string name, const GpuKernels& kernels);
  Device& device() override { return device_; }
  std::string_view kernel() const override { return name_; }
  void matmul_stored(TensorRef x, TensorRef w, TensorRef y) override;
  void rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) override;
  void layer_norm(TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out) override;
  void rope(TensorRef x, TensorRef positions, const RopeSpec& spec) override;
  void gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) override;
  void add(TensorRef x, TensorRef y) override;
  void take_rows(TensorRef table, TensorRef ids, TensorRef out) override;
  void add_rows(TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows) override;
  void softmax(TensorRef x, TensorRef out) override;
  void scale(TensorRef x, float factor) override;
  void soft_cap(TensorRef x, float cap) override;
  void sample(TensorRef logits, const SamplingRows& rows, TensorRef tokens) override;
  void write_kv(TensorRef k, TensorRef v, const GpuStep& step, int layer) override;
  void add_rms_norm(TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out) override;
  void quantize_rows(TensorRef x, const RowRounding& how, const RoundedRows& out) override;
  void add_rms_norm_quantize(TensorRef x, TensorRef y, TensorRef weight, float epsilon, const RowRounding& how, TensorRef norm,
                             const RoundedRows& out) override;
  void rope_write_kv(TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec, const GpuStep& step,
                     int layer) override;

 private:
  /// Asked for at each launch: it makes its GPU the thread's.
  gpu::Stream stream() const { return gpu::stream_of(device_); }

  Device& device_;
  std::string name_;
  GpuKernels kernels_;
  gpu::World world_;
};

}  // namespace patchbay
