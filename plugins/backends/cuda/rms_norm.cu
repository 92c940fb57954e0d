// RMSNorm, row by row: out = x / sqrt(mean(x^2) + epsilon) * weight.
//   naive  one thread per row: the formula
//   block  one block per row: neighbouring threads read neighbouring values, and the sum is a tree
//   fast   16 bytes per load: an eighth of the instructions for fp16; the second pass finds the row in the L1 cache
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rms_factor.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;


template <class T>
__global__ void rms_norm_naive(Rows<const T> x, const float* weight, int rows, int cols, float epsilon, Rows<T> out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* in = x.data + row * x.stride;
  float squares = 0;
  for (int c = 0; c < cols; ++c) squares += to_float(in[c]) * to_float(in[c]);
  const float factor = factor_of(squares, cols, epsilon);
  for (int c = 0; c < cols; ++c) out.data[row * out.stride + c] = from_float<T>(to_float(in[c]) * factor * weight[c]);
}

template <class T>
__global__ void rms_norm_block(Rows<const T> x, const float* weight, int cols, float epsilon, Rows<T> out) {
  const T* in = x.data + blockIdx.x * x.stride;
  float squares = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) squares += to_float(in[c]) * to_float(in[c]);
  const float factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    out.data[blockIdx.x * out.stride + c] = from_float<T>(to_float(in[c]) * factor * weight[c]);
  }
}

template <class T, int kWidth>
__global__ void rms_norm_fast(Rows<const T> x, const float* weight, int cols, float epsilon, Rows<T> out) {
  const T* in = x.data + blockIdx.x * x.stride;
  const int step = blockDim.x * kWidth;
  float squares = 0;
  for (int c = threadIdx.x * kWidth; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) squares += to_float(pack.at[i]) * to_float(pack.at[i]);
  }
  const float factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  for (int c = threadIdx.x * kWidth; c < cols; c += step) {
    auto pack = gpu::load_pack<kWidth>(in + c);
    const auto weights = gpu::load_pack<kWidth>(weight + c);
    for (int i = 0; i < kWidth; ++i) pack.at[i] = from_float<T>(to_float(pack.at[i]) * factor * weights.at[i]);
    gpu::store_pack(out.data + blockIdx.x * out.stride + c, pack);
  }
}

}  // namespace

void rms_norm(Version version, TensorRef x, TensorRef weight, float epsilon, TensorRef out, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const float* factors = vector_of<float>(weight, "rms_norm", cols);
  with_type(x.dtype, "rms_norm", [&]<class T>(std::type_identity<T>) {
    const auto source = activations<const T>(x, "rms_norm", rows, cols);
    const auto target = activations<T>(out, "rms_norm", rows, cols);
    if (rows == 0) return;
    const int n = static_cast<int>(cols), width = pack_width(cols, source, target, Rows<const float>{factors, 0});
    const auto grid = static_cast<unsigned>(rows);
    if (version == Version::naive) {
      gpu::launch(blocks_for(rows, 32), 32, 0, stream, rms_norm_naive<T>, source, factors, static_cast<int>(rows), n, epsilon,
                  target);
    } else if (version == Version::block) {
      gpu::launch(grid, threads_for(cols, 1), 0, stream, rms_norm_block<T>, source, factors, n, epsilon, target);
    } else {
      const auto kernel = width > 1 ? rms_norm_fast<T, 16 / sizeof(T)> : rms_norm_fast<T, 1>;
      gpu::launch(grid, threads_for(cols, width), 0, stream, kernel, source, factors, n, epsilon, target);
    }
  });
}

}  // namespace patchbay::PATCHBAY_GPU
