// Flash attention on tensor cores: the tiles of tiled.cu, 64 queries x 64 slots, with both products (queries x keys, weights x
// values) as 16 x 8 x 16 products of the tensor cores. Each of 4 warps takes 16 queries and keeps their scores and outputs in
// registers; a lane's scores are, as they lie, its part of the second product's left factor, so the weights never go to shared
// memory. The values of a tile arrive while its scores are computed, the next tile's keys while the values are multiplied.
#include <type_traits>

#include "flash_gpu.h"
#include "patchbay/gpu/async_copy.cuh"
#include "patchbay/gpu/tensor_core.cuh"
#include "patchbay/gpu_kv_cache.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kQueries = 64, kSlots = 64, kThreads = 128;

/// Dynamic shared memory. Rows are 16 bytes longer than they need to be, so that the 8 rows an ldmatrix reads lie in different
/// banks.
template <class T, int kSize>
struct Tiles {
  using Row = T[kSize + 8];
  Row query[kQueries], key[kSlots], value[kSlots];
};

/// Slots [first, first + 64) as T; zeros behind the last and behind D: what lies there must not meet a weight of 0.
template <class Kv, class T, int kSize>
__device__ void load_tile(const gpu::LayerStep& step, int sequence, int kv_head, bool values, int first, int end, int size,
                          T (*tile)[kSize + 8]) {
  constexpr int kPacks = kSize / 8;
  for (int i = threadIdx.x; i < kSlots * kPacks; i += kThreads) {
    const int slot = first + i / kPacks, d = i % kPacks * 8;
    T* const to = &tile[i / kPacks][d];
    if (slot >= end || d >= size) {
      gpu::Pack<T, 8> zeros;
      for (T& zero : zeros.at) zero = gpu::from_float<T>(0.0f);
      gpu::store_pack(to, zeros);
      continue;
    }
    const gpu::Place place = step.place(sequence, slot);
    const Kv* const from = reinterpret_cast<const Kv*>(values ? step.value(place, kv_head) : step.key(place, kv_head)) + d;
    if constexpr (std::is_same_v<Kv, T>) {
      gpu::cp_async16(to, from);
    } else {
      const float scale = values ? step.value_scale(place, kv_head) : step.key_scale(place, kv_head);
      const auto stored = gpu::load_pack<8>(from);
      gpu::Pack<T, 8> rounded;
      for (int j = 0; j < 8; ++j) rounded.at[j] = gpu::from_float<T>(gpu::to_float(stored.at[j]) * scale);
      gpu::store_pack(to, rounded);
    }
  }
}
template <class T, int kSize>
__device__ void load_tile(const gpu::LayerStep& step, int sequence, int kv_head, bool values, int first, int end, int size,
                          T (*tile)[kSize + 8]) {
  switch (step.stored) {
    case DType::f32:
      load_tile<float, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
    case DType::f16:
      load_tile<__half, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
    case DType::bf16:
      load_tile<__nv_bfloat16, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
    case DType::f8_e4m3:
      load_tile<__nv_fp8_e4m3, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
    case DType::f8_e5m2:
      load_tile<__nv_fp8_e5m2, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
    default:
      load_tile<std::int8_t, T, kSize>(step, sequence, kv_head, values, first, end, size, tile);
      break;
  }
  gpu::cp_async_commit();
}

template <class T>
__device__ std::uint32_t pack_pair(float low, float high) {
  const gpu::Pack<T, 2> pair{{gpu::from_float<T>(low), gpu::from_float<T>(high)}};
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// The attention of a warp's 16 queries so far. A lane has parts of rows g = lane / 4 and g + 8, called 0 and 1; of each group of
/// 8 columns it has t = lane % 4 * 2 and the next: scores[n][2 * row + i] is slot 8 n + t + i, outputs likewise.
template <class T, int kSize>
struct State {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, outputs[kSize / 8][4] = {};

  /// scores = queries x keys
  static __device__ void multiply_keys(const Tiles<T, kSize>& tiles, int warp, int lane, float (&scores)[kSlots / 8][4]) {
#pragma unroll
    for (int d = 0; d < kSize; d += 16) {
      std::uint32_t a[4], b[4];
      gpu::ldmatrix_x4(a, &tiles.query[warp * 16 + lane % 16][d + lane / 16 * 8]);
#pragma unroll
      for (int n = 0; n < kSlots / 8; n += 2) {
        gpu::ldmatrix_x4(b, &tiles.key[n * 8 + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
        gpu::mma_m16n8k16<T>(scores[n], a, {b[0], b[1]});
        gpu::mma_m16n8k16<T>(scores[n + 1], a, {b[2], b[3]});
      }
    }
  }

  /// (F1) to (F3), and the first half of (F4): turns scores into weights.
  __device__ void weigh(const gpu::Sight (&sights)[2], const gpu::Scoring& scoring, int first, int lane,
                        float (&scores)[kSlots / 8][4]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const bool all = sights[row].sees_all(first, first + kSlots);
      float top = largest[row];
#pragma unroll
      for (int n = 0; n < kSlots / 8; ++n) {
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * row + i];
          score = all || sights[row].sees(first + 8 * n + lane % 4 * 2 + i) ? scoring(score) : -INFINITY;
          top = fmaxf(top, score);
        }
      }
      for (int distance = 1; distance < 4; distance *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, distance));
      const float base = top == -INFINITY ? 0.0f : top;  // nothing seen yet: weights of 0, not of inf - inf
      const float correction = __expf(largest[row] - base);
      float total = 0;
#pragma unroll
      for (int n = 0; n < kSlots / 8; ++n) {
        for (int i = 0; i < 2; ++i) total += scores[n][2 * row + i] = __expf(scores[n][2 * row + i] - base);
      }
      sum[row] = sum[row] * correction + total;  // of the lane's own columns; the four lanes are added at the end
      largest[row] = top;
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        for (int i = 0; i < 2; ++i) outputs[n][2 * row + i] *= correction;
      }
    }
  }

  /// outputs += weights x values: the second half of (F4)
  __device__ void multiply_values(const Tiles<T, kSize>& tiles, int lane, const float (&weights)[kSlots / 8][4]) {
#pragma unroll
    for (int n = 0; n < kSlots / 8; n += 2) {
      const std::uint32_t a[4] = {pack_pair<T>(weights[n][0], weights[n][1]), pack_pair<T>(weights[n][2], weights[n][3]),
                                  pack_pair<T>(weights[n + 1][0], weights[n + 1][1]),
                                  pack_pair<T>(weights[n + 1][2], weights[n + 1][3])};
      std::uint32_t b[4];
#pragma unroll
      for (int d = 0; d < kSize; d += 16) {
        gpu::ldmatrix_x4_trans(b, &tiles.value[n * 8 + lane % 16][d + lane / 16 * 8]);
        gpu::mma_m16n8k16<T>(outputs[d / 8], a, {b[0], b[1]});
        gpu::mma_m16n8k16<T>(outputs[d / 8 + 1], a, {b[2], b[3]});
      }
    }
  }
};

template <class T, int kSize>
__global__ void flash_kernel(gpu::LayerStep step, SequenceRows which, gpu::Scoring scoring, int group, int size, gpu::QueryRows q,
                             gpu::QueryRows out) {
  using Shared = Tiles<T, kSize>;
  PATCHBAY_DYNAMIC_SHARED(Shared, tiles);
  const int sequence = blockIdx.z, kv_head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kQueries;  // the last rows have most to do: they begin first
  const int rows = step.sequence_rows[sequence], queries = rows * group, base = step.first_row[sequence];
  if (first_query >= queries || rows < which.least || rows > which.most) return;
  const auto row_of = [&](int query) { return base + query / group; };
  const auto head_of = [&](int query) { return kv_head * group + query % group; };
  const int last_query = (first_query + kQueries < queries ? first_query + kQueries : queries) - 1;

  for (int i = threadIdx.x; i < kQueries * kSize / 8; i += kThreads) {
    const int query = first_query + i / (kSize / 8), d = i % (kSize / 8) * 8;
    gpu::Pack<T, 8> pack;
    for (T& zero : pack.at) zero = gpu::from_float<T>(0.0f);
    if (query <= last_query && d < size)
      pack = gpu::load_pack<8>(static_cast<const T*>(q.data) + q.at(row_of(query), head_of(query)) + d);
    gpu::store_pack(&tiles->query[i / (kSize / 8)][d], pack);
  }
  gpu::Sight sights[2];
  for (int row = 0; row < 2; ++row) {
    const int query = first_query + warp * 16 + lane / 4 + 8 * row;
    sights[row] = query <= last_query ? step.sight(row_of(query)) : gpu::Sight{};  // what is no query sees nothing
  }
  int begin, end;
  step.range(row_of(first_query), row_of(last_query), begin, end);
  begin = begin / kSlots * kSlots;  // tiles begin at multiples of 64 slots, whatever the batch is

  State<T, kSize> state;
  load_tile<T, kSize>(step, sequence, kv_head, false, begin, end, size, tiles->key);
  for (int first = begin; first < end; first += kSlots) {
    load_tile<T, kSize>(step, sequence, kv_head, true, first, end, size, tiles->value);
    gpu::cp_async_wait<1>();  // the keys have arrived, the values may be under way
    __syncthreads();          // for all threads; before the first tile the queries have, too
    float scores[kSlots / 8][4] = {};
    State<T, kSize>::multiply_keys(*tiles, warp, lane, scores);
    __syncthreads();  // the keys may be overwritten
    if (first + kSlots < end)
      load_tile<T, kSize>(step, sequence, kv_head, false, first + kSlots, end, size, tiles->key);
    else
      gpu::cp_async_commit();  // an empty group, so that the wait below means the same
    state.weigh(sights, scoring, first, lane, scores);
    gpu::cp_async_wait<1>();  // the values have arrived
    __syncthreads();
    state.multiply_values(*tiles, lane, scores);
    __syncthreads();  // the values may be overwritten
  }

  for (int row = 0; row < 2; ++row) {
    const int query = first_query + warp * 16 + lane / 4 + 8 * row;
    for (int distance = 1; distance < 4; distance *= 2) state.sum[row] += __shfl_xor_sync(~0u, state.sum[row], distance);
    const float factor = state.sum[row] == 0 ? 0.0f : 1.0f / state.sum[row];  // (F6)
    T* const to = static_cast<T*>(out.data) + (query <= last_query ? out.at(row_of(query), head_of(query)) : 0);
    // Of two groups of 8 columns a lane has two each. It takes its neighbour's of one group and gives those of the other, so that a
    // row's four lanes store 32 bytes side by side.
    const int odd = lane % 2;
#pragma unroll
    for (int n = 0; n < kSize / 8; n += 2) {
      const std::uint32_t first = pack_pair<T>(state.outputs[n][2 * row] * factor, state.outputs[n][2 * row + 1] * factor);
      const std::uint32_t second = pack_pair<T>(state.outputs[n + 1][2 * row] * factor, state.outputs[n + 1][2 * row + 1] * factor);
      const std::uint32_t other = __shfl_xor_sync(~0u, odd ? first : second, 1);
      const int d = 8 * (n + odd) + (lane % 4 - odd) * 2;
      if (query <= last_query && d < size) *reinterpret_cast<uint2*>(to + d) = odd ? make_uint2(other, second) : make_uint2(first, other);
    }
  }
}

template <class T, int kSize>
void launch_flash(const FlashJob& job, gpu::Stream stream) {
  const AttentionSpec& spec = job.spec;
  const int group = spec.heads / spec.kv_heads;
  const gpu::Dim grid(gpu::ceil_div(most_rows(job.step) * group, kQueries), spec.kv_heads, job.step.sequences);
  gpu::launch(grid, kThreads, sizeof(Tiles<T, kSize>), stream, flash_kernel<T, kSize>,
              gpu::layer_step(job.step, job.layer, spec.window), job.which, gpu::Scoring{spec.scale, spec.soft_cap}, group,
              spec.head_size, gpu::query_rows(job.q), gpu::query_rows(job.out));
}
template <class T>
void launch_flash(const FlashJob& job, gpu::Stream stream) {
  if (job.spec.head_size <= 64) return launch_flash<T, 64>(job, stream);
  if (job.spec.head_size <= 96) return launch_flash<T, 96>(job, stream);
  if (job.spec.head_size <= 128) return launch_flash<T, 128>(job, stream);
  launch_flash<T, 256>(job, stream);
}

}  // namespace

void flash_attention(const FlashJob& job, gpu::Stream stream) {
  require_packs(job, "flash");
  if (job.q.dtype != job.out.dtype || (job.q.dtype != DType::f16 && job.q.dtype != DType::bf16)) {
    throw Error("attention flash", "kernel flash cannot take activations of type " + std::string(name_of(job.q.dtype)),
                "f16, bf16", "take kernel: tiled");
  }
  if (job.step.rows == 0) return;
  if (job.q.dtype == DType::f16) return launch_flash<__half>(job, stream);
  launch_flash<__nv_bfloat16>(job, stream);
}

}  // namespace patchbay::PATCHBAY_GPU
