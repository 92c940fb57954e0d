// Sums: x += y, of the residual stream or of a bias (f32, one row for all: stride 0).
//   naive  one thread per value
//   fast   16 bytes per load and thread
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

template <class T, class Y>
__global__ void add_naive(Rows<T> x, Rows<const Y> y, int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (c >= cols) return;
  T& sum = x.data[row * x.stride + c];
  sum = from_float<T>(to_float(sum) + to_float(y.data[row * y.stride + c]));
}

template <class T, class Y, int kWidth>
__global__ void add_fast(Rows<T> x, Rows<const Y> y, int cols) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth, row = blockIdx.y;
  if (c >= cols) return;
  auto sum = gpu::load_pack<kWidth>(x.data + row * x.stride + c);
  const auto addend = gpu::load_pack<kWidth>(y.data + row * y.stride + c);
  for (int i = 0; i < kWidth; ++i) sum.at[i] = from_float<T>(to_float(sum.at[i]) + to_float(addend.at[i]));
  gpu::store_pack(x.data + row * x.stride + c, sum);
}

template <class T, class Y>
void launch_add(Version version, TensorRef x, TensorRef y, gpu::Stream stream) {
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const auto sums = activations<T>(x, "add", rows, cols);
  const auto addends = activations<const Y>(y, "add", rows, cols);
  const int width = version == Version::fast ? pack_width(cols, sums, addends) : 1;
  const auto kernel = version == Version::naive ? add_naive<T, Y>
                      : width > 1               ? add_fast<T, Y, 16 / sizeof(T)>
                                                : add_fast<T, Y, 1>;
  over_rows(rows, cols, width, [&](gpu::Dim grid, unsigned threads, std::int64_t first) {
    gpu::launch(grid, threads, 0, stream, kernel, sums.from(first), addends.from(first), static_cast<int>(cols));
  });
}

}  // namespace

void add(Version version, TensorRef x, TensorRef y, gpu::Stream stream) {
  require_version(version != Version::block, "add");
  with_type(x.dtype, "add", [&]<class T>(std::type_identity<T>) {
    if (y.dtype == DType::f32) return launch_add<T, float>(version, x, y, stream);
    launch_add<T, T>(version, x, y, stream);
  });
}

}  // namespace patchbay::PATCHBAY_GPU
