#include "gpu_ops.h"

#include "cuda_ops.h"
#include "rounding_ops.h"
#include "patchbay/attention.h"
#include "patchbay/gpu_device.h"

namespace patchbay {

namespace launch = gpu_launchers;
using gpu::pick;

GpuOps::GpuOps(Device& device, std::string name, const GpuKernels& kernels)
    : device_(device), name_(std::move(name)), kernels_(kernels), world_(gpu::world_of(device)) {}

void GpuOps::matmul_stored(TensorRef x, TensorRef w, TensorRef y) { pick(launch::matmul_stored, world_)(x, w, y, stream()); }
void GpuOps::rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) {
  pick(launch::rms_norm, world_)(kernels_.version(GpuOperation::rms_norm), x, weight, epsilon, out, stream());
}
void GpuOps::layer_norm(TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out) {
  pick(launch::layer_norm, world_)(kernels_.version(GpuOperation::layer_norm), x, weight, bias, epsilon, out, stream());
}
void GpuOps::rope(TensorRef x, TensorRef positions, const RopeSpec& spec) {
  pick(launch::rope, world_)(kernels_.version(GpuOperation::rope), x, positions, spec, stream());
}
void GpuOps::gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) {
  pick(launch::gated, world_)(kernels_.version(GpuOperation::gated), kind, g, up, out, stream());
}
void GpuOps::add(TensorRef x, TensorRef y) { pick(launch::add, world_)(kernels_.version(GpuOperation::add), x, y, stream()); }
void GpuOps::take_rows(TensorRef table, TensorRef ids, TensorRef out) {
  pick(launch::take_rows, world_)(kernels_.version(GpuOperation::take_rows), table, ids, out, stream());
}
void GpuOps::add_rows(TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows) {
  pick(launch::add_rows, world_)(kernels_.version(GpuOperation::add_rows), x, ids, factors, rows, stream());
}
void GpuOps::softmax(TensorRef x, TensorRef out) {
  pick(launch::softmax, world_)(kernels_.version(GpuOperation::softmax), x, out, stream());
}
void GpuOps::scale(TensorRef x, float factor) { pick(launch::scale, world_)(kernels_.version(GpuOperation::scale), x, factor, stream()); }
void GpuOps::soft_cap(TensorRef x, float cap) { pick(launch::soft_cap, world_)(kernels_.version(GpuOperation::soft_cap), x, cap, stream()); }
void GpuOps::sample(TensorRef logits, const SamplingRows& rows, TensorRef tokens) {
  pick(launch::sample, world_)(kernels_.version(GpuOperation::sample), logits, rows, tokens, stream());
}
void GpuOps::write_kv(TensorRef k, TensorRef v, const GpuStep& step, int layer) {
  pick(launch::write_kv, world_)(kernels_.version(GpuOperation::write_kv), k, v, step, layer, stream());
}
void GpuOps::add_rms_norm(TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out) {
  if (!kernels_.fused(GpuOperation::add_rms_norm)) return Ops::add_rms_norm(x, y, weight, epsilon, out);
  pick(launch::add_rms_norm, world_)(x, y, weight, epsilon, out, stream());
}
void GpuOps::quantize_rows(TensorRef x, const RowRounding& how, const RoundedRows& out) {
  pick(launch::quantize_rows, world_)(kernels_.version(GpuOperation::quantize_rows), x, how, out, stream());
}
void GpuOps::add_rms_norm_quantize(TensorRef x, TensorRef y, TensorRef weight, float epsilon, const RowRounding& how, TensorRef norm,
                                   const RoundedRows& out) {
  if (kernels_.fused(GpuOperation::add_rms_norm_quantize))
    return pick(launch::add_rms_norm_quantize, world_)(x, y, weight, epsilon, how, norm, out, stream());
  add_rms_norm(x, y, weight, epsilon, norm);
  quantize_rows(norm, how, out);
}
void GpuOps::rope_write_kv(TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec, const GpuStep& step,
                           int layer) {
  if (!kernels_.fused(GpuOperation::rope_write_kv)) return Ops::rope_write_kv(q, k, v, positions, spec, step, layer);
  pick(launch::rope_write_kv, world_)(q, k, v, positions, spec, step, layer, stream());
}

}  // namespace patchbay
