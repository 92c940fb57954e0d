// LayerNorm, row by row: out = (x - mean) / sqrt(variance + epsilon) * weight + bias.
//   naive  one thread per row: the formula
//   fast   one block per row, 16 bytes per load; the variance still comes from differences to the mean, in a second pass over the
//          L1 cache: the sum of squares minus the square of the sum would lose all digits where the mean is large
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

template <class T>
__global__ void layer_norm_naive(Rows<const T> x, const float* weight, const float* bias, int rows, int cols, float epsilon,
                                 Rows<T> out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* in = x.data + row * x.stride;
  float sum = 0, squares = 0;
  for (int c = 0; c < cols; ++c) sum += to_float(in[c]);
  const float mean = sum / static_cast<float>(cols);
  for (int c = 0; c < cols; ++c) squares += (to_float(in[c]) - mean) * (to_float(in[c]) - mean);
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(cols) + epsilon);
  for (int c = 0; c < cols; ++c) {
    out.data[row * out.stride + c] = from_float<T>((to_float(in[c]) - mean) * factor * weight[c] + bias[c]);
  }
}

template <class T, int kWidth>
__global__ void layer_norm_fast(Rows<const T> x, const float* weight, const float* bias, int cols, float epsilon, Rows<T> out) {
  const T* in = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  float sum = 0, squares = 0;
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) sum += to_float(pack.at[i]);
  }
  const float mean = gpu::block_sum(sum) / static_cast<float>(cols);
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) squares += (to_float(pack.at[i]) - mean) * (to_float(pack.at[i]) - mean);
  }
  const float factor = 1.0f / sqrtf(gpu::block_sum(squares) / static_cast<float>(cols) + epsilon);
  for (int c = first; c < cols; c += step) {
    auto pack = gpu::load_pack<kWidth>(in + c);
    const auto weights = gpu::load_pack<kWidth>(weight + c), offsets = gpu::load_pack<kWidth>(bias + c);
    for (int i = 0; i < kWidth; ++i) {
      pack.at[i] = from_float<T>((to_float(pack.at[i]) - mean) * factor * weights.at[i] + offsets.at[i]);
    }
    gpu::store_pack(out.data + blockIdx.x * out.stride + c, pack);
  }
}

}  // namespace

void layer_norm(Version version, TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out,
                gpu::Stream stream) {
  require_version(version != Version::block, "layer_norm");
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const float* factors = vector_of<float>(weight, "layer_norm", cols);
  const float* offsets = vector_of<float>(bias, "layer_norm", cols);
  with_type(x.dtype, "layer_norm", [&]<class T>(std::type_identity<T>) {
    const auto source = activations<const T>(x, "layer_norm", rows, cols);
    const auto target = activations<T>(out, "layer_norm", rows, cols);
    if (rows == 0) return;
    const int n = static_cast<int>(cols);
    const int width = pack_width(cols, source, target, Rows<const float>{factors, 0}, Rows<const float>{offsets, 0});
    if (version == Version::naive) {
      gpu::launch(blocks_for(rows, 32), 32, 0, stream, layer_norm_naive<T>, source, factors, offsets, static_cast<int>(rows), n,
                  epsilon, target);
    } else {
      const auto kernel = width > 1 ? layer_norm_fast<T, 16 / sizeof(T)> : layer_norm_fast<T, 1>;
      gpu::launch(static_cast<unsigned>(rows), threads_for(cols, width), 0, stream, kernel, source, factors, offsets, n, epsilon,
                  target);
    }
  });
}

}  // namespace patchbay::PATCHBAY_GPU
