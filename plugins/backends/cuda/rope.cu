// RoPE: each pair (a, b) of a head's first `dims` values turns by the angle of its position: (a cos - b sin, b cos + a sin).
// Sines and cosines come from a table of all positions, made once in double: far positions lose digits in float.
//   naive  one thread per pair
//   fast   16 bytes per load and thread: that many values of first halves and of second ones, or of whole pairs
#include "cuda_ops.h"
#include "rope.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

template <class T>
__global__ void rope_naive(Heads<T> x, int heads, int items, const std::int32_t* positions, Turns turns) {
  const int item = blockIdx.x * blockDim.x + threadIdx.x;
  if (item >= items) return;
  const int pair = item % turns.pairs, head = item / turns.pairs % heads, row = item / turns.pairs / heads;
  T* const values = x.data + row * x.row_stride + head * x.head_stride;
  const float cosine = turns.cosines(positions[row])[pair], sine = turns.sines(positions[row])[pair];
  if (turns.interleaved) {
    turn(values[2 * pair], values[2 * pair + 1], cosine, sine);
  } else {
    turn(values[pair], values[pair + turns.pairs], cosine, sine);
  }
}

/// Interleaved: a pack is kWidth / 2 pairs. Halves: two packs are kWidth pairs.
template <class T, int kWidth, bool kInterleaved>
__global__ void rope_fast(Heads<T> x, int heads, int items, const std::int32_t* positions, Turns turns) {
  constexpr int kPairs = kInterleaved ? kWidth / 2 : kWidth;
  const int item = blockIdx.x * blockDim.x + threadIdx.x, per_head = turns.pairs / kPairs;
  if (item >= items) return;
  const int pair = item % per_head * kPairs, head = item / per_head % heads, row = item / per_head / heads;
  T* const values = x.data + row * x.row_stride + head * x.head_stride + (kInterleaved ? 2 * pair : pair);
  const auto cosines = gpu::load_pack<kPairs>(turns.cosines(positions[row]) + pair);
  const auto sines = gpu::load_pack<kPairs>(turns.sines(positions[row]) + pair);
  auto first = gpu::load_pack<kWidth>(values);
  if constexpr (kInterleaved) {
    for (int i = 0; i < kPairs; ++i) turn(first.at[2 * i], first.at[2 * i + 1], cosines.at[i], sines.at[i]);
  } else {
    auto second = gpu::load_pack<kWidth>(values + turns.pairs);
    for (int i = 0; i < kPairs; ++i) turn(first.at[i], second.at[i], cosines.at[i], sines.at[i]);
    gpu::store_pack(values + turns.pairs, second);
  }
  gpu::store_pack(values, first);
}

/// Whether each pack that rope_fast loads begins at an address that allows it.
template <class T>
bool packs_fit(const Heads<T>& x, const Turns& turns) {
  constexpr std::int64_t kWidth = 16 / sizeof(T);
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.row_stride % kWidth == 0 && x.head_stride % kWidth == 0 &&
         reinterpret_cast<std::uintptr_t>(turns.angles) % 16 == 0 && turns.stride % 4 == 0 && turns.pairs % kWidth == 0;
}

}  // namespace

void rope(Version version, TensorRef x, TensorRef positions, const RopeSpec& spec, gpu::Stream stream) {
  require_version(version != Version::block, "rope");
  const Turns turns = turns_of(spec, x, "rope");
  const auto* at = vector_of<const std::int32_t>(positions, "rope", x.shape[0]);
  with_type(x.dtype, "rope", [&]<class T>(std::type_identity<T>) {
    constexpr int kWidth = 16 / sizeof(T);
    const Heads<T> heads = heads_of<T>(x, "rope");
    const bool fast = version == Version::fast && packs_fit(heads, turns);
    const int pairs = !fast ? 1 : turns.interleaved ? kWidth / 2 : kWidth;
    const auto kernel = !fast ? rope_naive<T> : turns.interleaved ? rope_fast<T, kWidth, true> : rope_fast<T, kWidth, false>;
    const std::int64_t items = x.shape[0] * x.shape[1] * (turns.pairs / pairs);
    if (items == 0) return;
    gpu::launch(blocks_for(items, 128), 128, 0, stream, kernel, heads, static_cast<int>(x.shape[1]), static_cast<int>(items), at,
                turns);
  });
}

}  // namespace patchbay::PATCHBAY_GPU
