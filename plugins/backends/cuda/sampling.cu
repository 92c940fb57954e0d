// A token from a row of logits, without sorting it: temperature, top-k, top-p and the draw as the host's processors define them.
//   naive  a threshold is found bit by bit: 64 passes over the row for each of top-k and top-p
//   fast   8 bits per pass, by a histogram in shared memory: 8 passes, and as a rule 4, since few logits are equal
//
// Tokens are ranked by a key of 64 bits: the logit's bits, made to ascend with its value, over the index, made to descend. All
// keys differ, and equal logits rank by index, as on the host. Top-k keeps the keys of which k are as large or larger; top-p
// those whose share of the probability is reached first. Shares are integers (2^-40 of the largest weight): sums of integers are
// the same in any order, so a seed gives the same token on every run.
#include "cuda_ops.h"
#include "patchbay/gpu/warp.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using Key = unsigned long long;
using Mass = unsigned long long;

constexpr int kThreads = 512;

/// A row of logits, divided by the temperature.
struct Logits {
  const float* values;
  int count;
  float temperature;

  __device__ float at(int i) const { return values[i] / temperature; }
  __device__ Key key(int i) const {
    const float value = at(i) + 0.0f;  // -0 becomes 0
    unsigned bits = __float_as_uint(value);
    bits ^= bits >> 31 ? 0xFFFFFFFFu : 0x80000000u;
    return Key{bits} << 32 | (0xFFFFFFFFu - static_cast<unsigned>(i));
  }
};
__device__ int index_of(Key key) { return static_cast<int>(0xFFFFFFFFu - static_cast<unsigned>(key)); }

/// Weight of a token beside the largest logit, in 2^-40.
__device__ Mass weight(float logit, float largest) {
  const float ratio = logit == largest ? 1.0f : expf(logit - largest);  // also where both are infinite
  return static_cast<Mass>(ratio * 0x1p40f);
}

/// One digit of the search: which bin, from the highest down, the target falls into. By the first warp; bins are split over
/// lanes.
template <int kBins>
struct Digit {
  Mass mass[kBins];
  unsigned count[kBins];
  int bin;     ///< chosen
  Mass above;  ///< mass of the bins over it

  __device__ void choose(Mass target) {
    constexpr int kPerLane = kBins < 32 ? 1 : kBins / 32;
    const int lane = threadIdx.x % 32, top = kBins - 1 - lane * kPerLane;
    Mass own = 0;
    for (int i = 0; i < kPerLane && top - i >= 0; ++i) own += mass[top - i];
    const Mass through = gpu::warp_prefix_sum(own);  // of this lane's bins and all over them
    const unsigned reached = __ballot_sync(~0u, through >= target);
    if (lane != __ffs(reached) - 1) return;
    Mass before = through - own;
    int chosen = top;
    while (before + mass[chosen] < target) before += mass[chosen--];
    bin = chosen;
    above = before;
  }
};

/// The largest key such that all keys from it up have a mass of `target` or more. mass_of(i, key) is 0 for tokens that are out.
template <int kBits, class MassOf>
__device__ Key select(const Logits& logits, Mass target, MassOf mass_of) {
  constexpr int kBins = 1 << kBits;
  PATCHBAY_SHARED(Digit<kBins>, digit, );
  Key prefix = 0;
  for (int shift = 64 - kBits;; shift -= kBits) {
    for (int i = threadIdx.x; i < kBins; i += kThreads) digit.mass[i] = digit.count[i] = 0;
    __syncthreads();  // the histogram is empty
    for (int i = threadIdx.x; i < logits.count; i += kThreads) {
      const Key key = logits.key(i);
      if (shift + kBits < 64 && key >> (shift + kBits) != prefix >> (shift + kBits)) continue;
      const Mass mass = mass_of(i, key);
      if (mass == 0) continue;
      const int bin = static_cast<int>(key >> shift) & (kBins - 1);
      atomicAdd(&digit.mass[bin], mass);
      atomicAdd(&digit.count[bin], 1u);
    }
    __syncthreads();  // and full
    if (threadIdx.x < 32) digit.choose(target);
    __syncthreads();  // the bin is chosen
    const int bin = digit.bin;
    prefix |= static_cast<Key>(bin) << shift;
    target -= digit.above;
    const bool done = shift == 0 || digit.count[bin] == 1 || digit.mass[bin] == target;  // the whole bin is in
    __syncthreads();  // all have read; the next digit may overwrite
    if (done) return prefix;
  }
}

/// The token at which the weights, summed by index, pass `target`. Each thread sums a run of tokens; the one whose run the target
/// falls into walks through it.
template <class MassOf>
__device__ void draw(const Logits& logits, Mass target, MassOf mass_of, std::int32_t* token) {
  PATCHBAY_SHARED(Mass, warps, [kThreads / 32]);
  const int run = (logits.count + kThreads - 1) / kThreads, first = threadIdx.x * run;
  const int last = first + run < logits.count ? first + run : logits.count, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Mass own = 0;
  for (int i = first; i < last; ++i) own += mass_of(i, logits.key(i));
  Mass through = gpu::warp_prefix_sum(own);
  if (lane == 31) warps[warp] = through;
  __syncthreads();  // each warp's sum is there
  for (int w = 0; w < warp; ++w) through += warps[w];
  Mass before = through - own;
  if (target < before || target >= through) return;
  for (int i = first; i < last; ++i) {
    before += mass_of(i, logits.key(i));
    if (target < before) {
      *token = i;
      return;
    }
  }
}

template <int kBits>
__global__ void sample_kernel(Rows<const float> rows, int vocabulary, SamplingRows spec, std::int32_t* tokens) {
  const int row = blockIdx.x;
  const float temperature = spec.temperature ? spec.temperature[row] : 0.0f;
  const Logits logits{rows.data + row * rows.stride, vocabulary, temperature > 0 ? temperature : 1.0f};
  Key top = 0;
  bool poisoned = false;
  for (int i = threadIdx.x; i < vocabulary; i += kThreads) {
    const Key key = logits.key(i);
    top = key > top ? key : top;
    poisoned |= logits.at(i) != logits.at(i);
  }
  poisoned = __syncthreads_or(poisoned);
  top = gpu::block_max(top);
  const float largest = logits.at(index_of(top));
  if (poisoned || largest == -INFINITY || temperature <= 0) {
    if (threadIdx.x == 0) tokens[row] = poisoned || largest == -INFINITY ? -1 : index_of(top);
    return;
  }
  Key cut = 0;
  const auto kept = [&](int i, Key key) { return key >= cut ? weight(logits.at(i), largest) : Mass{0}; };
  const auto total = [&] {
    Mass sum = 0;
    for (int i = threadIdx.x; i < vocabulary; i += kThreads) sum += kept(i, logits.key(i));
    return gpu::block_sum(sum);
  };
  const int k = spec.top_k ? spec.top_k[row] : 0;
  const double p = spec.top_p ? spec.top_p[row] : 1.0;
  if (k > 0 && k < vocabulary) cut = select<kBits>(logits, static_cast<Mass>(k), [](int, Key) { return Mass{1}; });
  if (p < 1) {
    const Mass share = static_cast<Mass>(ceil(p * static_cast<double>(total())));
    const Key nucleus = select<kBits>(logits, share > 0 ? share : 1, kept);
    cut = nucleus > cut ? nucleus : cut;  // the search may stop at a prefix below what top-k left
  }
  const Mass sum = total(), target = static_cast<Mass>(spec.uniform[row] * static_cast<double>(sum));
  draw(logits, target < sum ? target : sum - 1, kept, tokens + row);  // rounding may let the target reach the sum
}

}  // namespace

void sample(Version version, TensorRef logits, const SamplingRows& spec, TensorRef tokens, gpu::Stream stream) {
  require_version(version != Version::block, "sample");
  const std::int64_t rows = logits.shape[0], vocabulary = logits.shape[1];
  const auto source = rows_of<const float>(logits, "sample", rows, vocabulary);
  auto* const out = vector_of<std::int32_t>(tokens, "sample", rows);
  require(!spec.temperature || spec.uniform, "sample", "a temperature without random numbers");
  if (rows == 0) return;
  const auto kernel = version == Version::naive ? sample_kernel<1> : sample_kernel<8>;
  gpu::launch(static_cast<unsigned>(rows), kThreads, 0, stream, kernel, source, static_cast<int>(vocabulary), spec, out);
}

}  // namespace patchbay::PATCHBAY_GPU
