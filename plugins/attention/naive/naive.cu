// Attention by its definition: one block per row and query head. All scores of the row, their softmax, the weighted mean of the
// values; the scores lie in shared memory, which is what bounds the length.
#include <string>

#include "naive_gpu.h"
#include "patchbay/gpu/warp.cuh"
#include "patchbay/gpu_kv_cache.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kThreads = 64;
constexpr std::int64_t kMostSlots = 16384;  // 64 KiB of scores: every GPU since sm_80 has that

__global__ void naive_kernel(gpu::LayerStep step, gpu::Scoring scoring, int group, int size, gpu::QueryRows q,
                             gpu::QueryRows out) {
  PATCHBAY_DYNAMIC_SHARED(float, weights);  // (slots)
  const int row = blockIdx.x, head = blockIdx.y, kv_head = head / group, sequence = step.row_sequence[row];
  const gpu::Sight sight = step.sight(row);
  float largest = -INFINITY;
  for (int slot = threadIdx.x; slot < sight.end; slot += kThreads) {
    float score = -INFINITY;
    if (sight.sees(slot)) {  // (N1), (N2)
      const gpu::Place place = step.place(sequence, slot);
      float product = 0;
      for (int d = 0; d < size; ++d)
        product += q.load(row, head, d) * gpu::stored_value(step.stored, step.key(place, kv_head), d);
      score = scoring(product * step.key_scale(place, kv_head));
    }
    weights[slot] = score;
    largest = fmaxf(largest, score);
  }
  largest = gpu::block_max(largest);
  float sum = 0;
  for (int slot = threadIdx.x; slot < sight.end; slot += kThreads) {  // (N3); each thread its own scores
    weights[slot] = weights[slot] == -INFINITY ? 0.0f : expf(weights[slot] - largest);
    sum += weights[slot];
  }
  sum = gpu::block_sum(sum);                            // which waits for all threads: all weights are there
  for (int d = threadIdx.x; d < size; d += kThreads) {  // (N4)
    float mean = 0;
    for (int slot = 0; slot < sight.end; ++slot) {
      if (weights[slot] == 0) continue;
      const gpu::Place place = step.place(sequence, slot);
      const float value = gpu::stored_value(step.stored, step.value(place, kv_head), d) * step.value_scale(place, kv_head);
      mean += weights[slot] * value;
    }
    out.store(row, head, d, sum == 0 ? 0.0f : mean / sum);
  }
}

}  // namespace

void naive_attention(const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out, gpu::Stream stream) {
  if (step.longest > kMostSlots) {
    throw Error("attention naive", "kernel block cannot take a sequence of " + std::to_string(step.longest) + " tokens",
                "up to " + std::to_string(kMostSlots), "take attention: flash");
  }
  if (step.rows == 0) return;
  gpu::launch({step.rows, spec.heads}, kThreads, static_cast<std::size_t>(step.longest) * sizeof(float), stream, naive_kernel,
              gpu::layer_step(step, layer, spec.window), gpu::Scoring{spec.scale, spec.soft_cap}, spec.heads / spec.kv_heads,
              spec.head_size, gpu::query_rows(q), gpu::query_rows(out));
}

}  // namespace patchbay::PATCHBAY_GPU
