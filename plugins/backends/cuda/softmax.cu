// Softmax, row by row: out = exp(x - max) / sum of exp(x - max). -inf gives 0.
//   naive  one thread per row, three passes: the formula
//   block  one block per row, three passes
//   fast   two passes: maximum and sum are found together, the sum corrected whenever the maximum moves; 16 bytes per load
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// exp(x - largest), also where both are infinite.
__device__ float share(float x, float largest) { return x == largest ? 1.0f : expf(x - largest); }

__global__ void softmax_naive(Rows<const float> x, int rows, int cols, Rows<float> out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = x.data + row * x.stride;
  float largest = -INFINITY, sum = 0;
  for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
  for (int c = 0; c < cols; ++c) sum += share(in[c], largest);
  for (int c = 0; c < cols; ++c) out.data[row * out.stride + c] = share(in[c], largest) / sum;
}

__global__ void softmax_block(Rows<const float> x, int cols, Rows<float> out) {
  const float* in = x.data + blockIdx.x * x.stride;
  float largest = -INFINITY, sum = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) largest = fmaxf(largest, in[c]);
  largest = gpu::block_max(largest);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += share(in[c], largest);
  sum = gpu::block_sum(sum);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out.data[blockIdx.x * out.stride + c] = share(in[c], largest) / sum;
}

template <int kWidth>
__global__ void softmax_fast(Rows<const float> x, int cols, Rows<float> out) {
  const float* in = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  float largest = -INFINITY, sum = 0;
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) {
      if (pack.at[i] > largest) {
        sum *= share(largest, pack.at[i]);
        largest = pack.at[i];
      }
      if (largest > -INFINITY) sum += share(pack.at[i], largest);
    }
  }
  const float top = gpu::block_max(largest);
  sum = gpu::block_sum(largest == -INFINITY ? 0.0f : sum * share(largest, top));
  for (int c = first; c < cols; c += step) {
    auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) pack.at[i] = share(pack.at[i], top) / sum;
    gpu::store_pack(out.data + blockIdx.x * out.stride + c, pack);
  }
}

}  // namespace

void softmax(Version version, TensorRef x, TensorRef out, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const auto source = rows_of<const float>(x, "softmax", rows, cols);
  const auto target = rows_of<float>(out, "softmax", rows, cols);
  if (rows == 0) return;
  const int n = static_cast<int>(cols), width = version == Version::fast ? pack_width(cols, source, target) : 1;
  const auto grid = static_cast<unsigned>(rows);
  if (version == Version::naive) {
    gpu::launch(blocks_for(rows, 32), 32, 0, stream, softmax_naive, source, static_cast<int>(rows), n, target);
  } else if (version == Version::block) {
    gpu::launch(grid, threads_for(cols, 1), 0, stream, softmax_block, source, n, target);
  } else {
    gpu::launch(grid, threads_for(cols, width), 0, stream, width > 1 ? softmax_fast<4> : softmax_fast<1>, source, n, target);
  }
}

}  // namespace patchbay::PATCHBAY_GPU
