/// @file flash_gpu.h
/// The launchers of the CUDA kernels, and what they take. T rows of the step, H query heads, G key/value heads, D head size.
#pragma once
#include <algorithm>
#include <limits>
#include <string>

#include "patchbay/attention.h"
#include "patchbay/gpu.h"

namespace patchbay {

/// Sequences with so many rows in the step: kernels of prefill and decode may differ, and a step may hold both.
struct SequenceRows {
  int least = 1, most = std::numeric_limits<int>::max();
};
/// Attention::run_on_gpu, as one launch does it.
struct FlashJob {
  const AttentionSpec& spec;
  const GpuStep& step;
  int layer;
  TensorRef q, out;
  SequenceRows which;
  float* scratch = nullptr;  ///< of split_kv: split_kv_scratch() floats on the device
};

/// tiled.cu: any D up to 256, any layout and activations.
PATCHBAY_GPU_LAUNCHER(void, tiled_attention, (const FlashJob&, gpu::Stream))
/// flash.cu: D a multiple of 8 up to 256; q f16 or bf16, into which keys and values are rounded.
PATCHBAY_GPU_LAUNCHER(void, flash_attention, (const FlashJob&, gpu::Stream))
/// split_kv.cu: D a multiple of 8 up to 256, any layout and activations.
PATCHBAY_GPU_LAUNCHER(void, split_kv_attention, (const FlashJob&, gpu::Stream))

/// Pieces of 128 slots in the longest sequence that the step's bucket allows.
inline std::int64_t split_kv_pieces(const GpuStep& step) { return (step.longest + 127) / 128; }
inline std::int64_t split_kv_scratch(const AttentionSpec& spec, const GpuStep& step) {
  return step.rows * spec.heads * split_kv_pieces(step) * (spec.head_size + 2);
}

/// Rows of the sequence that has most.
inline std::int64_t most_rows(const GpuStep& step) {
  std::int64_t most = 0;
  for (const StepSequence& sequence : step.host) most = std::max(most, sequence.rows);
  return most;
}
inline void require_head_size(bool fits, const AttentionSpec& spec, const char* kernel, const char* allowed) {
  if (fits) return;
  throw Error("attention flash",
              std::string("kernel ") + kernel + " cannot take heads of " + std::to_string(spec.head_size) + " values", allowed,
              "take kernel: tiled or attention: naive");
}
/// For kernels that load 8 values at a time.
inline void require_packs(const FlashJob& job, const char* kernel) {
  require_head_size(job.spec.head_size % 8 == 0 && job.spec.head_size <= 256, job.spec, kernel, "multiples of 8 up to 256");
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(job.q.data) % 16 == 0 && job.q.strides[0] % 8 == 0 && job.q.strides[1] % 8 == 0;
  if (aligned) return;
  throw Error("attention flash",
              std::string("kernel ") + kernel + " cannot take queries whose heads do not begin at multiples of 16 bytes", "",
              "take kernel: tiled");
}

}  // namespace patchbay
