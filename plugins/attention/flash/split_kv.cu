// Split-KV decode: a row's slots are cut into pieces of 128, each worked on by a block of its own, and the pieces' results are
// put together by a second kernel. One new token per sequence leaves a GPU idle when only heads and sequences are spread over it;
// the cache is what decoding has to read, and this spreads it.
//
// One block takes all query heads of a key/value head (up to 8 at a time): each cached row is loaded once and used by all of
// them. A cached row is held by D / 8 threads of a team of 8, 16 or 32; teams take the piece's slots in turn. A piece is small
// enough for a plain softmax in shared memory; only the merge has to correct for maxima: (F2) to (F4) of README.md, a piece at a
// time. Pieces begin at multiples of 128 slots of the sequence, so a row's result does not depend on what else is in the batch.
#include "flash_gpu.h"
#include "patchbay/gpu/warp.cuh"
#include "patchbay/gpu_kv_cache.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kPiece = 128, kThreads = 128, kWarps = kThreads / 32;
constexpr int kWide = 8;  // values per thread

/// What the first kernel leaves: the largest score and the sum of weights (T,H,pieces), and the unfinished output (T,H,pieces,D).
struct Pieces {
  float *largest, *sum, *output;
  int count;
  __device__ std::int64_t at(int row, int head, int heads, int piece) const {
    return (std::int64_t{row} * heads + head) * count + piece;
  }
};

/// A block's part of the work: query heads first_head .. first_head + heads of one key/value head, over one piece of a row's
/// slots.
struct Work {
  int row, sequence, kv_head, first_head, heads, first_slot;
};
/// A thread's place in its team: it holds values first .. first + 8 of the cached rows of slots team, team + teams, ...
struct Team {
  int size, number, count, first;
  __device__ explicit Team(int size_)
      : size(size_), number(threadIdx.x / size_), count(kThreads / size_), first(threadIdx.x % size_ * kWide) {}
};

/// (F1): scores[h][t] of slot first_slot + t, -inf where the row does not look.
template <class Kv, int kHeads>
__device__ void score_piece(const gpu::LayerStep& step, const gpu::Scoring& scoring, const gpu::Sight& sight, const Work& work,
                            const Team& team, int size, const gpu::QueryRows& q, float (*scores)[kPiece]) {
  float query[kHeads][kWide] = {};
  for (int h = 0; h < kHeads; ++h) {
    if (team.first < size && h < work.heads) q.load_pack(work.row, work.first_head + h, team.first, query[h]);
  }
#pragma unroll 2
  for (int t = team.number; t < kPiece; t += team.count) {
    const bool seen = sight.sees(work.first_slot + t);
    float key[kWide] = {}, scale = 1;
    if (seen) {
      const gpu::Place place = step.place(work.sequence, work.first_slot + t);
      scale = step.key_scale(place, work.kv_head);
      if (team.first < size) {
        const auto stored = gpu::load_pack<kWide>(reinterpret_cast<const Kv*>(step.key(place, work.kv_head)) + team.first);
        for (int i = 0; i < kWide; ++i) key[i] = gpu::to_float(stored.at[i]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      float product = 0;
      for (int i = 0; i < kWide; ++i) product += query[h][i] * key[i];
      for (int distance = team.size / 2; distance > 0; distance /= 2) product += __shfl_xor_sync(~0u, product, distance);
      if (team.first == 0) scores[h][t] = seen ? scoring(product * scale) : -INFINITY;
    }
  }
}

/// Scores become weights, a warp per head at a time; the head's largest score and sum of weights go to memory.
__device__ void weigh_piece(const Work& work, int heads, float (*scores)[kPiece], const Pieces& pieces) {
  const int lane = threadIdx.x % 32;
  for (int h = threadIdx.x / 32; h < work.heads; h += kWarps) {
    float largest = -INFINITY, sum = 0;
    for (int t = lane; t < kPiece; t += 32) largest = fmaxf(largest, scores[h][t]);
    largest = gpu::warp_max(largest);
    for (int t = lane; t < kPiece; t += 32) {
      scores[h][t] = scores[h][t] == -INFINITY ? 0.0f : expf(scores[h][t] - largest);
      sum += scores[h][t];
    }
    sum = gpu::warp_sum(sum);
    if (lane == 0) {
      const std::int64_t at = pieces.at(work.row, work.first_head + h, heads, work.first_slot / kPiece);
      pieces.largest[at] = largest;
      pieces.sum[at] = sum;
    }
  }
}

/// The sum of weight * value over the team's slots, then over the teams of the warp: joined[warp][h][d].
template <class Kv, int kHeads>
__device__ void sum_values(const gpu::LayerStep& step, const gpu::Sight& sight, const Work& work, const Team& team, int size,
                           const float (*weights)[kPiece], float* joined) {
  float output[kHeads][kWide] = {};
#pragma unroll 2
  for (int t = team.number; t < kPiece; t += team.count) {
    if (team.first >= size || !sight.sees(work.first_slot + t)) continue;
    const gpu::Place place = step.place(work.sequence, work.first_slot + t);
    const float scale = step.value_scale(place, work.kv_head);
    const auto stored = gpu::load_pack<kWide>(reinterpret_cast<const Kv*>(step.value(place, work.kv_head)) + team.first);
    for (int h = 0; h < kHeads; ++h) {
      for (int i = 0; i < kWide; ++i) output[h][i] += weights[h][t] * (gpu::to_float(stored.at[i]) * scale);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kWide; ++i) {
      for (int distance = team.size; distance < 32; distance *= 2) output[h][i] += __shfl_xor_sync(~0u, output[h][i], distance);
      if (threadIdx.x % 32 < team.size && team.first < size)
        joined[(threadIdx.x / 32 * kHeads + h) * size + team.first + i] = output[h][i];
    }
  }
}

template <class Kv, int kHeads>
__global__ void split_kernel(gpu::LayerStep step, SequenceRows which, gpu::Scoring scoring, int heads, int group, int size,
                             int team_size, gpu::QueryRows q, Pieces pieces) {
  PATCHBAY_SHARED(float, scores, [kHeads][kPiece]);
  PATCHBAY_DYNAMIC_SHARED(float, joined);  // (kWarps, kHeads, D)
  const int tiles = (group + kHeads - 1) / kHeads, row = blockIdx.x, tile = blockIdx.y % tiles, kv_head = blockIdx.y / tiles;
  const int in_tile = group - tile * kHeads < kHeads ? group - tile * kHeads : kHeads;
  const Work work{
      row, step.row_sequence[row], kv_head, kv_head * group + tile * kHeads, in_tile, static_cast<int>(blockIdx.z) * kPiece};
  const int rows = step.sequence_rows[work.sequence];
  if (rows < which.least || rows > which.most) return;
  const gpu::Sight sight = step.sight(row);
  if (work.first_slot >= sight.end || work.first_slot + kPiece <= sight.begin) return;  // the merge passes over it, too
  const Team team(team_size);
  score_piece<Kv, kHeads>(step, scoring, sight, work, team, size, q, scores);
  __syncthreads();  // all scores are there
  weigh_piece(work, heads, scores, pieces);
  __syncthreads();  // all weights are there
  sum_values<Kv, kHeads>(step, sight, work, team, size, scores, joined);
  __syncthreads();  // each warp's sum is there
  for (int i = threadIdx.x; i < work.heads * size; i += kThreads) {
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += joined[warp * kHeads * size + i];
    pieces.output[pieces.at(row, work.first_head + i / size, heads, blockIdx.z) * size + i % size] = sum;
  }
}

/// One block per row and query head: the pieces that hold slots of the row, in order.
__global__ void merge_kernel(gpu::LayerStep step, SequenceRows which, int heads, int size, Pieces pieces, gpu::QueryRows out) {
  const int row = blockIdx.x, head = blockIdx.y;
  const int rows = step.sequence_rows[step.row_sequence[row]];
  if (rows < which.least || rows > which.most) return;
  const gpu::Sight sight = step.sight(row);
  const int begin = sight.begin / kPiece, end = (sight.end + kPiece - 1) / kPiece;
  float largest = -INFINITY, sum = 0;
  for (int piece = begin; piece < end; ++piece) {
    const float other = pieces.largest[pieces.at(row, head, heads, piece)];
    largest = other > largest || other != other ? other : largest;
  }
  const auto factor = [&](std::int64_t at) {
    return pieces.largest[at] == -INFINITY ? 0.0f : expf(pieces.largest[at] - largest);
  };
  for (int piece = begin; piece < end; ++piece) {
    const std::int64_t at = pieces.at(row, head, heads, piece);
    sum += factor(at) * pieces.sum[at];
  }
  for (int d = threadIdx.x; d < size; d += blockDim.x) {
    float output = 0;
    for (int piece = begin; piece < end; ++piece) {
      const std::int64_t at = pieces.at(row, head, heads, piece);
      output += factor(at) * pieces.output[at * size + d];
    }
    out.store(row, head, d, sum == 0 ? 0.0f : output / sum);  // (F6)
  }
}

template <class Kv>
auto kernel_for(int group) {
  return group == 1 ? split_kernel<Kv, 1> : group <= 4 ? split_kernel<Kv, 4> : split_kernel<Kv, 8>;
}
auto kernel_for(DType stored, int group) {
  switch (stored) {
    case DType::f32:
      return kernel_for<float>(group);
    case DType::f16:
      return kernel_for<__half>(group);
    case DType::bf16:
      return kernel_for<__nv_bfloat16>(group);
    case DType::f8_e4m3:
      return kernel_for<__nv_fp8_e4m3>(group);
    case DType::f8_e5m2:
      return kernel_for<__nv_fp8_e5m2>(group);
    default:
      return kernel_for<std::int8_t>(group);
  }
}

}  // namespace

void split_kv_attention(const FlashJob& job, gpu::Stream stream) {
  const AttentionSpec& spec = job.spec;
  const GpuStep& step = job.step;
  require_packs(job, "split_kv");
  if (step.rows == 0) return;
  const int group = spec.heads / spec.kv_heads, width = group == 1 ? 1 : group <= 4 ? 4 : 8;
  const std::int64_t count = split_kv_pieces(step), states = step.rows * spec.heads * count;
  const Pieces pieces{job.scratch, job.scratch + states, job.scratch + 2 * states, static_cast<int>(count)};
  const gpu::LayerStep cached = gpu::layer_step(step, job.layer, spec.window);
  const gpu::Dim grid(step.rows, spec.kv_heads * gpu::ceil_div(group, width), count);
  const int team = spec.head_size <= 64 ? 8 : spec.head_size <= 128 ? 16 : 32;
  const std::size_t shared = sizeof(float) * kWarps * width * spec.head_size;
  gpu::launch(grid, kThreads, shared, stream, kernel_for(step.shape.layout.dtype, group), cached, job.which,
              gpu::Scoring{spec.scale, spec.soft_cap}, spec.heads, group, spec.head_size, team, gpu::query_rows(job.q), pieces);
  gpu::launch({step.rows, spec.heads}, 32 * std::min(4, gpu::ceil_div(spec.head_size, 32)), 0, stream, merge_kernel, cached,
              job.which, spec.heads, spec.head_size, pieces, gpu::query_rows(job.out));
}

}  // namespace patchbay::PATCHBAY_GPU
