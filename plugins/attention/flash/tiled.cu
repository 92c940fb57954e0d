// Attention over tiles, on CUDA cores: one block takes 16 queries (rows x the query heads that share a key/value head) of one
// sequence and walks through the slots in tiles of 32, which all its queries read from shared memory. The scores of a tile are
// all that is ever kept of them: (F2) to (F4) of README.md. Against naive: the cache is read once per 16 queries instead of once
// for each, and no length is too long.
#include "flash_gpu.h"
#include "patchbay/gpu/warp.cuh"
#include "patchbay/gpu_kv_cache.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kQueries = 16, kSlots = 32, kThreads = 128, kMostSize = 256;
constexpr int kPerWarp = kQueries / (kThreads / 32);  // queries of a warp
constexpr int kPerLane = kMostSize / 32;              // values of a query that a lane keeps

/// Where the tiles lie in dynamic shared memory. A key's row has one value more, so that 32 lanes that read 32 rows hit 32 banks.
struct Tiles {
  float *query, *key, *value, *weight;
  int size;
  __device__ Tiles(float* memory, int d)
      : query(memory), key(query + kQueries * d), value(key + kSlots * (d + 1)), weight(value + kSlots * d), size(d) {}
  static std::size_t bytes(int d) { return sizeof(float) * (kQueries * (d + kSlots) + kSlots * (2 * d + 1)); }
};

/// One query's attention so far: lane l keeps values l, l + 32, ...
struct State {
  float largest = -INFINITY, sum = 0, output[kPerLane] = {};
};

/// Slots [first, first + 32) of one head as floats; zeros where there is none, whatever lies in that memory.
__device__ void load_tile(const gpu::LayerStep& step, int sequence, int kv_head, int first, int end, const Tiles& tiles) {
  for (int i = threadIdx.x; i < kSlots * tiles.size; i += kThreads) {
    const int t = i / tiles.size, d = i % tiles.size;
    float key = 0, value = 0;
    if (first + t < end) {
      const gpu::Place place = step.place(sequence, first + t);
      key = gpu::stored_value(step.stored, step.key(place, kv_head), d) * step.key_scale(place, kv_head);
      value = gpu::stored_value(step.stored, step.value(place, kv_head), d) * step.value_scale(place, kv_head);
    }
    tiles.key[t * (tiles.size + 1) + d] = key;
    tiles.value[t * tiles.size + d] = value;
  }
}

/// One tile for one query, by one warp; lane l has slot first + l.
__device__ void see_tile(const Tiles& tiles, const gpu::Sight& sight, const gpu::Scoring& scoring, int query, int first,
                         State& state) {
  const int lane = threadIdx.x % 32;
  float score = -INFINITY;
  if (sight.sees(first + lane)) {
    float product = 0;
    for (int d = 0; d < tiles.size; ++d) product += tiles.query[query * tiles.size + d] * tiles.key[lane * (tiles.size + 1) + d];
    score = scoring(product);  // (F1)
  }
  const float largest = fmaxf(state.largest, gpu::warp_max(score));  // (F2)
  if (largest == -INFINITY) return;                                  // nothing seen yet, in any lane
  const float correction = expf(state.largest - largest), weight = expf(score - largest);
  state.sum = state.sum * correction + gpu::warp_sum(weight);  // (F3)
  state.largest = largest;
  tiles.weight[query * kSlots + lane] = weight;
  __syncwarp();                         // the warp's weights are there
  for (int i = 0; i < kPerLane; ++i) {  // (F4)
    const int d = lane + 32 * i;
    if (d >= tiles.size) break;
    float sum = state.output[i] * correction;
    for (int t = 0; t < kSlots; ++t) sum += tiles.weight[query * kSlots + t] * tiles.value[t * tiles.size + d];
    state.output[i] = sum;
  }
}

__global__ void tiled_kernel(gpu::LayerStep step, SequenceRows which, gpu::Scoring scoring, int group, int size, gpu::QueryRows q,
                             gpu::QueryRows out) {
  PATCHBAY_DYNAMIC_SHARED(float, memory);
  const Tiles tiles(memory, size);
  const int sequence = blockIdx.z, kv_head = blockIdx.y, first_query = blockIdx.x * kQueries;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rows = step.sequence_rows[sequence], queries = rows * group, base = step.first_row[sequence];
  if (first_query >= queries || rows < which.least || rows > which.most) return;
  const auto row_of = [&](int query) { return base + (first_query + query) / group; };
  const auto head_of = [&](int query) { return kv_head * group + (first_query + query) % group; };
  const int count = queries - first_query < kQueries ? queries - first_query : kQueries;
  for (int i = threadIdx.x; i < count * size; i += kThreads)
    tiles.query[i] = q.load(row_of(i / size), head_of(i / size), i % size);

  int begin, end;
  step.range(row_of(0), row_of(count - 1), begin, end);
  State states[kPerWarp];
  for (int first = begin / kSlots * kSlots; first < end; first += kSlots) {
    load_tile(step, sequence, kv_head, first, end, tiles);
    __syncthreads();  // the tile is there, before the first one the queries, too
    for (int j = 0; j < kPerWarp; ++j) {
      const int query = warp * kPerWarp + j;
      if (query < count) see_tile(tiles, step.sight(row_of(query)), scoring, query, first, states[j]);
    }
    __syncthreads();  // and may be overwritten
  }
  for (int j = 0; j < kPerWarp; ++j) {
    const int query = warp * kPerWarp + j;
    if (query >= count) break;
    for (int i = 0; i < kPerLane; ++i) {
      const int d = lane + 32 * i;
      const float mean = states[j].sum == 0 ? 0.0f : states[j].output[i] / states[j].sum;  // (F6)
      if (d < size) out.store(row_of(query), head_of(query), d, mean);
    }
  }
}

}  // namespace

void tiled_attention(const FlashJob& job, gpu::Stream stream) {
  const AttentionSpec& spec = job.spec;
  require_head_size(spec.head_size <= kMostSize, spec, "tiled", "up to 256");
  if (job.step.rows == 0) return;
  const int group = spec.heads / spec.kv_heads;
  const gpu::Dim grid(gpu::ceil_div(most_rows(job.step) * group, kQueries), spec.kv_heads, job.step.sequences);
  gpu::launch(grid, kThreads, Tiles::bytes(spec.head_size), stream, tiled_kernel,
              gpu::layer_step(job.step, job.layer, spec.window), job.which, gpu::Scoring{spec.scale, spec.soft_cap}, group,
              spec.head_size, gpu::query_rows(job.q), gpu::query_rows(job.out));
}

}  // namespace patchbay::PATCHBAY_GPU
