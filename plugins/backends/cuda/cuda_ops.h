/// @file cuda_ops.h
/// Launchers of the dense operations on a GPU: the signatures of Ops (backend.h) with a stream, and what only a device needs.
/// One operation per .cu file, its kernels from naive to fast. Activations are f32, f16 or bf16, all of one call alike; arithmetic
/// is f32 inside. Rows may lie apart, the values of a row are adjacent. All pointers are the device's, in specs too.
/// T tokens of this step, C columns, H query heads, G key/value heads, D head size, V vocabulary.
#pragma once
#include <cstdint>

#include "patchbay/attention.h"
#include "patchbay/backend.h"
#include "patchbay/gpu.h"

namespace patchbay {

/// Steps of an operation's ladder. `naive` is the definition, `fast` the best; `block` stands between them where a file has it.
enum class Version { naive, block, fast };

/// out(T,C) = x / sqrt(mean(x^2) + epsilon) * weight(C), weight f32. out may be x. Has a step `block`.
PATCHBAY_GPU_LAUNCHER(void, rms_norm, (Version, TensorRef x, TensorRef weight, float epsilon, TensorRef out, gpu::Stream))
/// out(T,C) = (x - mean) / sqrt(variance + epsilon) * weight(C) + bias(C), weight and bias f32. out may be x.
PATCHBAY_GPU_LAUNCHER(void, layer_norm,
                      (Version, TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out, gpu::Stream))
/// x(T,C) += y(T,C), then out = rms_norm(x): one pass over x where the two operations need two. The same bits as one after the
/// other.
PATCHBAY_GPU_LAUNCHER(void, add_rms_norm,
                      (TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out, gpu::Stream))
/// Turns x(T,H,D) in place by the angles of positions(T) i32, as spec says.
PATCHBAY_GPU_LAUNCHER(void, rope, (Version, TensorRef x, TensorRef positions, const RopeSpec& spec, gpu::Stream))

/// Ops::write_kv: k, v (T,G,D) of all rows of a step into a layer's cache, in its number format.
PATCHBAY_GPU_LAUNCHER(void, write_kv, (Version, TensorRef k, TensorRef v, const GpuStep& step, int layer, gpu::Stream))
/// rope of q(T,H,D) in place, and write_kv of the turned k and of v, in one launch; k itself stays as it is. The same bits.
PATCHBAY_GPU_LAUNCHER(void, rope_write_kv, (TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec,
                                            const GpuStep& step, int layer, gpu::Stream))

/// out(T,F) = gate(g) * up. out may be g or up.
PATCHBAY_GPU_LAUNCHER(void, gated, (Version, Gate kind, TensorRef g, TensorRef up, TensorRef out, gpu::Stream))
/// x(T,C) += y(T,C). y may be f32 whatever x is, and one row for all (stride 0).
PATCHBAY_GPU_LAUNCHER(void, add, (Version, TensorRef x, TensorRef y, gpu::Stream))
/// x(T,C) *= factor.
PATCHBAY_GPU_LAUNCHER(void, scale, (Version, TensorRef x, float factor, gpu::Stream))
/// x = cap * tanh(x / cap), (T,C).
PATCHBAY_GPU_LAUNCHER(void, soft_cap, (Version, TensorRef x, float cap, gpu::Stream))
/// out(T,C) = table(N,C)[ids(T)], ids i32; the table is f32, f16 or bf16 whatever out is. A number outside 0 .. N-1 gives NaN.
PATCHBAY_GPU_LAUNCHER(void, take_rows, (Version, TensorRef table, TensorRef ids, TensorRef out, gpu::Stream))
/// x(N,C)[ids(T)] += factors(T) * rows(T,C); ids i32, no two the same, factors f32.
PATCHBAY_GPU_LAUNCHER(void, add_rows, (Version, TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows, gpu::Stream))
/// y(T,R) = x(T,C) w(R,C)^T; w is f32, f16 or bf16 whatever x is, y may be f32. The definition: formats bring faster ones.
PATCHBAY_GPU_LAUNCHER(void, matmul_stored, (TensorRef x, TensorRef w, TensorRef y, gpu::Stream))

/// out(T,C) = exp(x - max) / sum of exp(x - max), f32; -inf gives 0. out may be x. Has a step `block`.
PATCHBAY_GPU_LAUNCHER(void, softmax, (Version, TensorRef x, TensorRef out, gpu::Stream))

/// tokens(T) i32 from logits(T,V) f32: processors temperature, top_k and top_p, then decoder sampling, as the host has them; the
/// lowest index among equals. -1 for a row with NaN, or with nothing above -inf.
PATCHBAY_GPU_LAUNCHER(void, sample, (Version, TensorRef logits, const SamplingRows& spec, TensorRef tokens, gpu::Stream))

}  // namespace patchbay
