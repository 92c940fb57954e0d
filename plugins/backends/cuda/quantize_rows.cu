// Rows rounded to 8 bits, one scale each (RoundingOps::quantize_rows): the inputs of products of bytes.
//   naive  one thread per row: the definition
//   fast   one block per row, 16 bytes per load; the second pass finds the row in the L1 cache
// A scale that all rows share takes a pass over them first, and one more launch to state it.
#include "patchbay/gpu/vector.cuh"
#include "quantize_row.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::to_float;

template <class T>
__global__ void largest_of_rows(Rows<const T> x, int cols, float* largest) {
  const T* in = x.data + blockIdx.x * x.stride;
  float most = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) most = max_or_nan(most, fabsf(to_float(in[c])));
  most = block_max_or_nan(most);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}
/// The largest of those that are finite.
__device__ float common_of(const float* largest, int rows) {
  float most = 0;
  for (int r = threadIdx.x; r < rows; r += blockDim.x) most = largest[r] <= 3.4e38f ? fmaxf(most, largest[r]) : most;
  return gpu::block_max(most);
}
/// One block: what was the largest number of each row becomes its scale.
__global__ void state_common_scale(float* scales, int rows, RowRounding how) {
  const float common = common_of(scales, rows);
  for (int r = threadIdx.x; r < rows; r += blockDim.x) scales[r] = row_scale(scales[r], common, how).scale;
}

template <class T, class Code, int kWidth>
__global__ void quantize_fast(Rows<const T> x, int cols, RowRounding how, const float* largest, Rows<Code> codes, float* scales,
                              bool aligned) {
  const T* in = x.data + blockIdx.x * x.stride;
  const int first = threadIdx.x * kWidth, step = blockDim.x * kWidth;
  float most = 0;
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    for (int i = 0; i < kWidth; ++i) most = max_or_nan(most, fabsf(to_float(pack.at[i])));
  }
  const RowScale scale = row_scale(block_max_or_nan(most), largest ? common_of(largest, gridDim.x) : 0.0f, how);
  for (int c = first; c < cols; c += step) {
    const auto pack = gpu::load_pack<kWidth>(in + c);
    gpu::Pack<Code, kWidth> rounded;
    for (int i = 0; i < kWidth; ++i) rounded.at[i] = code_of<Code>(to_float(pack.at[i]), scale.inverse);
    store_codes(codes.data + blockIdx.x * codes.stride + c, rounded, aligned);
  }
  if (threadIdx.x == 0 && !largest) scales[blockIdx.x] = scale.scale;
}

template <class T, class Code>
__global__ void quantize_naive(Rows<const T> x, int rows, int cols, RowRounding how, const float* largest, Rows<Code> codes,
                               float* scales) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* in = x.data + row * x.stride;
  float most = 0, common = 0;
  for (int c = 0; c < cols; ++c) most = max_or_nan(most, fabsf(to_float(in[c])));
  for (int r = 0; largest && r < rows; ++r) common = largest[r] <= 3.4e38f ? fmaxf(common, largest[r]) : common;
  const RowScale scale = row_scale(most, common, how);
  for (int c = 0; c < cols; ++c) codes.data[row * codes.stride + c] = code_of<Code>(to_float(in[c]), scale.inverse);
  if (!largest) scales[row] = scale.scale;
}

template <class T, class Code>
void launch_quantize(Version version, TensorRef x, const RowRounding& how, const RoundedRows& out, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const auto source = activations<const T>(x, "quantize_rows", rows, cols);
  const auto target = codes_of<Code>(out.codes, "quantize_rows", rows, cols);
  float* const factors = vector_of<float>(out.scales, "quantize_rows", rows);
  if (rows == 0) return;
  const auto grid = static_cast<unsigned>(rows);
  const int n = static_cast<int>(cols), count = static_cast<int>(rows);
  const float* const largest = how.scale == RowRounding::Scale::tensor ? factors : nullptr;
  if (largest) gpu::launch(grid, threads_for(cols, 1), 0, stream, largest_of_rows<T>, source, n, factors);
  if (version == Version::fast) {
    const int width = pack_width(cols, source);
    const auto kernel = width > 1 ? quantize_fast<T, Code, 16 / sizeof(T)> : quantize_fast<T, Code, 1>;
    gpu::launch(grid, threads_for(cols, width), 0, stream, kernel, source, n, how, largest, target, factors,
                codes_aligned(target, width));
  } else {
    gpu::launch(blocks_for(rows, 32), 32, 0, stream, quantize_naive<T, Code>, source, count, n, how, largest, target, factors);
  }
  if (largest) gpu::launch(1, 256, 0, stream, state_common_scale, factors, count, how);
}

}  // namespace

void quantize_rows(Version version, TensorRef x, const RowRounding& how, const RoundedRows& out, gpu::Stream stream) {
  require_version(version != Version::block, "quantize_rows");
  with_type(x.dtype, "quantize_rows", [&]<class T>(std::type_identity<T>) {
    with_code(how.code, "quantize_rows", [&]<class Code>(std::type_identity<Code>) {
      launch_quantize<T, Code>(version, x, how, out, stream);
    });
  });
}

}  // namespace patchbay::PATCHBAY_GPU
