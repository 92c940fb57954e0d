// RMSNorm with what comes before and after it, in one kernel: memory is what these operations cost, and each pass over it that is
// saved is time saved. One block per row, 16 bytes per load, as the fast kernel of rms_norm.cu; the same bits as the operations
// one after the other.
//   add_rms_norm           x += y; out = norm(x): the sum is normalised while it is at hand
//   add_rms_norm_quantize  and norm(x) is rounded to 8 bits: the normalised row never goes to memory in 16 bits
#include "patchbay/gpu/vector.cuh"
#include "quantize_row.cuh"
#include "rms_factor.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

/// x += y for the block's row, and its sum of squares.
template <class T, int kWidth>
__device__ float add_and_square(T* sums, const T* addends, int cols) {
  float squares = 0;
  for (int c = threadIdx.x * kWidth; c < cols; c += blockDim.x * kWidth) {
    auto pack = gpu::load_pack<kWidth>(sums + c);
    const auto addend = gpu::load_pack<kWidth>(addends + c);
    for (int i = 0; i < kWidth; ++i) {
      pack.at[i] = from_float<T>(to_float(pack.at[i]) + to_float(addend.at[i]));
      squares += to_float(pack.at[i]) * to_float(pack.at[i]);
    }
    gpu::store_pack(sums + c, pack);
  }
  return squares;
}
/// kWidth numbers of the norm from column c on. Each thread reads back what it wrote itself.
template <class T, int kWidth>
__device__ gpu::Pack<T, kWidth> normed(const T* sums, const float* weight, int c, float factor) {
  auto pack = gpu::load_pack<kWidth>(sums + c);
  const auto weights = gpu::load_pack<kWidth>(weight + c);
  for (int i = 0; i < kWidth; ++i) pack.at[i] = from_float<T>(to_float(pack.at[i]) * factor * weights.at[i]);
  return pack;
}

template <class T, int kWidth>
__global__ void add_rms_norm_kernel(Rows<T> x, Rows<const T> y, const float* weight, int cols, float epsilon, Rows<T> out) {
  T* sums = x.data + blockIdx.x * x.stride;
  const float squares = add_and_square<T, kWidth>(sums, y.data + blockIdx.x * y.stride, cols);
  const float factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  for (int c = threadIdx.x * kWidth; c < cols; c += blockDim.x * kWidth)
    gpu::store_pack(out.data + blockIdx.x * out.stride + c, normed<T, kWidth>(sums, weight, c, factor));
}

template <class T, class Code, int kWidth>
__global__ void add_rms_norm_quantize_kernel(Rows<T> x, Rows<const T> y, const float* weight, int cols, float epsilon,
                                             RowRounding how, Rows<Code> codes, float* scales, bool aligned) {
  T* sums = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  const float squares = add_and_square<T, kWidth>(sums, y.data + blockIdx.x * y.stride, cols);
  const float factor = factor_of(gpu::block_sum(squares), cols, epsilon);
  float largest = 0;
  for (int c = first; c < cols; c += step) {
    const auto pack = normed<T, kWidth>(sums, weight, c, factor);  // rounded to T, as it would be in memory
    for (int i = 0; i < kWidth; ++i) largest = max_or_nan(largest, fabsf(to_float(pack.at[i])));
  }
  const RowScale scale = row_scale(block_max_or_nan(largest), 0.0f, how);
  for (int c = first; c < cols; c += step) {
    const auto pack = normed<T, kWidth>(sums, weight, c, factor);
    gpu::Pack<Code, kWidth> rounded;
    for (int i = 0; i < kWidth; ++i) rounded.at[i] = code_of<Code>(to_float(pack.at[i]), scale.inverse);
    store_codes(codes.data + blockIdx.x * codes.stride + c, rounded, aligned);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = scale.scale;
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

void add_rms_norm_quantize(TensorRef x, TensorRef y, TensorRef weight, float epsilon, const RowRounding& how, TensorRef norm,
                           const RoundedRows& out, gpu::Stream stream) {
  constexpr const char* kName = "add_rms_norm_quantize";
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  require(how.scale != RowRounding::Scale::tensor, kName, "a scale that all rows share is not known when a row is rounded");
  const float* factors = vector_of<float>(weight, kName, cols);
  float* const found = vector_of<float>(out.scales, kName, rows);
  with_type(x.dtype, kName, [&]<class T>(std::type_identity<T>) {
    with_code(how.code, kName, [&]<class Code>(std::type_identity<Code>) {
      const auto sums = activations<T>(x, kName, rows, cols), target = activations<T>(norm, kName, rows, cols);
      const auto addend = activations<const T>(y, kName, rows, cols);
      const auto rounded = codes_of<Code>(out.codes, kName, rows, cols);
      if (rows == 0) return;
      const int width = pack_width(cols, sums, addend, target, Rows<const float>{factors, 0});  // as add_rms_norm: its order of sums
      const auto kernel =
          width > 1 ? add_rms_norm_quantize_kernel<T, Code, 16 / sizeof(T)> : add_rms_norm_quantize_kernel<T, Code, 1>;
      gpu::launch(static_cast<unsigned>(rows), threads_for(cols, width), 0, stream, kernel, sums, addend, factors,
                  static_cast<int>(cols), epsilon, how, rounded, found, codes_aligned(rounded, width));
    });
  });
}

}  // namespace patchbay::PATCHBAY_GPU
