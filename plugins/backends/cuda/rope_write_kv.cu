// Fused: queries turn in place, keys turn on their way into the cache, values
// go there beside them: one launch per layer instead of three, and turned keys
// never go to memory as activations. A warp per row and head. The same bits as
// rope and write_kv.
#include "cuda_ops.h"
#include "kv_rows.cuh"
#include "rope.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// Value d of a head after it turned, rounded as it would be in memory; the
/// head itself stays as it is.
template <class T>
__device__ float turned(const T* head, int d, const Turns& turns, std::int32_t position) {
  if (d >= 2 * turns.pairs) return gpu::to_float(head[d]);
  const int pair = turns.interleaved ? d / 2 : d % turns.pairs;
  const bool is_first = turns.interleaved ? d % 2 == 0 : d < turns.pairs;
  T first = head[turns.interleaved ? 2 * pair : pair], second = head[turns.interleaved ? 2 * pair + 1 : pair + turns.pairs];
  turn(first, second, turns.cosines(position)[pair], turns.sines(position)[pair]);
  return gpu::to_float(is_first ? first : second);
}

/// blockIdx.y: query heads, then key heads, then value heads.
template <class T>
__global__ void rope_write_kv_kernel(Heads<T> q, Heads<const T> k, Heads<const T> v, const std::int32_t* positions, Turns turns,
                                     gpu::LayerStep step, int heads, int kv_heads, int rows, int size) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, item = blockIdx.y;
  if (row >= rows) return;
  if (item < heads) {
    T* const head = q.data + row * q.row_stride + item * q.head_stride;
    for (int pair = lane; pair < turns.pairs; pair += 32) {
      T& first = head[turns.interleaved ? 2 * pair : pair];
      T& second = head[turns.interleaved ? 2 * pair + 1 : pair + turns.pairs];
      turn(first, second, turns.cosines(positions[row])[pair], turns.sines(positions[row])[pair]);
    }
  } else if (item < heads + kv_heads) {
    const T* const head = k.data + row * k.row_stride + (item - heads) * k.head_stride;
    write_row<32>(step, row, item - heads, false, size, [&](int d) { return turned(head, d, turns, positions[row]); });
  } else {
    const T* const head = v.data + row * v.row_stride + (item - heads - kv_heads) * v.head_stride;
    write_row<32>(step, row, item - heads - kv_heads, true, size, [&](int d) { return gpu::to_float(head[d]); });
  }
}

}  // namespace

void rope_write_kv(TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec, const GpuStep& step,
                   int layer, gpu::Stream stream) {
  require_layout(step.shape.layout, "rope_write_kv");
  const Turns turns = turns_of(spec, k, "rope_write_kv");
  const auto* at = vector_of<const std::int32_t>(positions, "rope_write_kv", step.rows);
  require(k.shape == v.shape && k.shape[0] == step.rows && q.shape[0] == step.rows && q.shape[2] == k.shape[2], "rope_write_kv",
          "queries, keys and values are not (rows of the step, heads, size)");
  if (step.rows == 0) return;
  with_type(q.dtype, "rope_write_kv", [&]<class T>(std::type_identity<T>) {
    const int heads = static_cast<int>(q.shape[1]), kv_heads = static_cast<int>(k.shape[1]), threads = 128;
    gpu::launch(gpu::Dim(blocks_for(step.rows * 32, threads), heads + 2 * kv_heads), threads, 0, stream, rope_write_kv_kernel<T>,
                heads_of<T>(q, "rope_write_kv"), heads_of<const T>(k, "rope_write_kv"), heads_of<const T>(v, "rope_write_kv"), at,
                turns, gpu::layer_step(step, layer), heads, kv_heads, static_cast<int>(step.rows), static_cast<int>(k.shape[2]));
  });
}

}  // namespace patchbay::PATCHBAY_GPU
