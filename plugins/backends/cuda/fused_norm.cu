// RMSNorm with what comes before or after it, in one kernel: memory is what these operations cost, and each pass over it that is
// saved is time saved. One block per row, 16 bytes per load, as the fast kernel of rms_norm.cu; the same bits as the operations
// one after the other.
//   add_rms_norm       x += y; out = norm(x): the sum is normalised while it is at hand
//   rms_norm_quantize  norm(x) rounded to 8 bits: the normalised row never goes to memory in 16 bits
//   quantize_rows      the rounding alone: naive by one thread per row, fast by one block per row
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rms_factor.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

/// 127 / largest, or 0 for a row of zeros: then all codes are 0. Not finite: the scale says so, and codes are 0.
__device__ float inverse_scale(float largest) {
  const float inverse = 127.0f / largest;
  return inverse <= 3.4e38f ? inverse : 0.0f;
}
__device__ std::int8_t code_of(float value, float inverse) {
  return inverse > 0 ? static_cast<std::int8_t>(rintf(value * inverse)) : std::int8_t{0};
}
/// max that keeps a NaN, so that a row with one gets a scale that is one.
__device__ float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }
__device__ float block_max_or_nan(float largest) {
  const bool poisoned = __syncthreads_or(largest != largest);
  const float result = gpu::block_max(poisoned ? 0.0f : largest);
  return poisoned ? NAN : result;
}

template <class T, int kWidth>
__global__ void add_rms_norm_kernel(Rows<T> x, Rows<const T> y, const float* weight, int cols, float epsilon, Rows<T> out) {
  T* sums = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  float squares = 0;
  for (int c = first; c < cols; c += step) {
    auto pack = gpu::load_pack<kWidth>(sums + c);
    const auto addend = gpu::load_pack<kWidth>(y.data + blockIdx.x * y.stride + c);
    for (int i = 0; i < kWidth; ++i) {
      pack.at[i] = from_float<T>(to_float(pack.at[i]) + to_float(addend.at[i]));
      squares += to_float(pack.at[i]) * to_float(pack.at[i]);
    }
    gpu::store_pack(sums + c, pack);
  }
  const float factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  for (int c = first; c < cols; c += step) {  // each thread reads back what it wrote itself
    auto pack = gpu::load_pack<kWidth>(sums + c);
    const auto weights = gpu::load_pack<kWidth>(weight + c);
    for (int i = 0; i < kWidth; ++i) pack.at[i] = from_float<T>(to_float(pack.at[i]) * factor * weights.at[i]);
    gpu::store_pack(out.data + blockIdx.x * out.stride + c, pack);
  }
}

template <class T, int kWidth, bool kNorm>
__global__ void quantize_kernel(Rows<const T> x, const float* weight, int cols, float epsilon, Rows<std::int8_t> codes,
                                float* scales) {
  const T* in = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  float factor = 1, largest = 0;
  if constexpr (kNorm) {
    float squares = 0;
    for (int c = first; c < cols; c += step) {
      const auto pack = gpu::load_pack<kWidth>(in + c);
      for (int i = 0; i < kWidth; ++i) squares += to_float(pack.at[i]) * to_float(pack.at[i]);
    }
    factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  }
  const auto value = [&](T element, int c) {  // rounded to T, as it would be in memory
    return kNorm ? to_float(from_float<T>(to_float(element) * factor * weight[c])) : to_float(element);
  };
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) largest = max_or_nan(largest, fabsf(value(pack.at[i], c + i)));
  }
  largest = block_max_or_nan(largest);
  const float inverse = inverse_scale(largest);
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    gpu::Pack<std::int8_t, kWidth> rounded;
    for (int i = 0; i < kWidth; ++i) rounded.at[i] = code_of(value(pack.at[i], c + i), inverse);
    gpu::store_pack(codes.data + blockIdx.x * codes.stride + c, rounded);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = inverse > 0 || !(largest < 1) ? largest / 127.0f : 0.0f;
}

template <class T>
__global__ void quantize_naive(Rows<const T> x, int rows, int cols, Rows<std::int8_t> codes, float* scales) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* in = x.data + row * x.stride;
  float largest = 0;
  for (int c = 0; c < cols; ++c) largest = max_or_nan(largest, fabsf(to_float(in[c])));
  const float inverse = inverse_scale(largest);
  for (int c = 0; c < cols; ++c) codes.data[row * codes.stride + c] = code_of(to_float(in[c]), inverse);
  scales[row] = inverse > 0 || !(largest < 1) ? largest / 127.0f : 0.0f;
}

template <class T, bool kNorm>
void launch_quantize(TensorRef x, const float* weight, float epsilon, TensorRef codes, TensorRef scales, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const auto source = activations<const T>(x, "quantize_rows", rows, cols);
  const auto target = rows_of<std::int8_t>(codes, "quantize_rows", rows, cols);
  float* const factors = vector_of<float>(scales, "quantize_rows", rows);
  if (rows == 0) return;
  const int width = pack_width(cols, source) > 1 && pack_width(cols, target) > 1 ? 16 / sizeof(T) : 1;
  const auto kernel = width > 1 ? quantize_kernel<T, 16 / sizeof(T), kNorm> : quantize_kernel<T, 1, kNorm>;
  gpu::launch(static_cast<unsigned>(rows), threads_for(cols, width), 0, stream, kernel, source, weight, static_cast<int>(cols),
              epsilon, target, factors);
}

}  // namespace

void add_rms_norm(TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const float* factors = vector_of<float>(weight, "add_rms_norm", cols);
  with_type(x.dtype, "add_rms_norm", [&]<class T>(std::type_identity<T>) {
    const auto sums = activations<T>(x, "add_rms_norm", rows, cols), target = activations<T>(out, "add_rms_norm", rows, cols);
    const auto addend = activations<const T>(y, "add_rms_norm", rows, cols);
    if (rows == 0) return;
    const int width = pack_width(cols, sums, addend, target, Rows<const float>{factors, 0});
    const auto kernel = width > 1 ? add_rms_norm_kernel<T, 16 / sizeof(T)> : add_rms_norm_kernel<T, 1>;
    gpu::launch(static_cast<unsigned>(rows), threads_for(cols, width), 0, stream, kernel, sums, addend, factors,
                static_cast<int>(cols), epsilon, target);
  });
}

void rms_norm_quantize(TensorRef x, TensorRef weight, float epsilon, TensorRef codes, TensorRef scales, gpu::Stream stream) {
  const float* factors = vector_of<float>(weight, "rms_norm_quantize", x.shape[1]);
  with_type(x.dtype, "rms_norm_quantize",
            [&]<class T>(std::type_identity<T>) { launch_quantize<T, true>(x, factors, epsilon, codes, scales, stream); });
}

void quantize_rows(Version version, TensorRef x, TensorRef codes, TensorRef scales, gpu::Stream stream) {
  require_version(version != Version::block, "quantize_rows");
  with_type(x.dtype, "quantize_rows", [&]<class T>(std::type_identity<T>) {
    if (version == Version::fast) return launch_quantize<T, false>(x, nullptr, 0, codes, scales, stream);
    const std::int64_t rows = x.shape[0], cols = x.shape[1];
    const auto source = activations<const T>(x, "quantize_rows", rows, cols);
    const auto target = rows_of<std::int8_t>(codes, "quantize_rows", rows, cols);
    float* const factors = vector_of<float>(scales, "quantize_rows", rows);
    if (rows == 0) return;
    gpu::launch(blocks_for(rows, 32), 32, 0, stream, quantize_naive<T>, source, static_cast<int>(rows), static_cast<int>(cols),
                target, factors);
  });
}

}  // namespace patchbay::PATCHBAY_GPU
