// Weighted rows added where they belong, as a mixture of experts sums its parts: x[ids[t]] += factors[t] * rows[t].
//   naive  one thread per value
//   fast   16 bytes per load and thread
// No two ids are the same, so that no sum needs an atomic, whose order would differ from run to run.
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

template <class T, int kWidth>
__global__ void add_rows_kernel(Rows<T> x, const std::int32_t* ids, const float* factors, int cols, Rows<const T> rows) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
  if (c >= cols) return;
  T* const target = x.data + ids[blockIdx.y] * x.stride + c;
  const float factor = factors[blockIdx.y];
  auto sum = gpu::load_pack<kWidth>(target);
  const auto addend = gpu::load_pack<kWidth>(rows.data + blockIdx.y * rows.stride + c);
  for (int i = 0; i < kWidth; ++i) sum.at[i] = from_float<T>(to_float(sum.at[i]) + factor * to_float(addend.at[i]));
  gpu::store_pack(target, sum);
}

}  // namespace

void add_rows(Version version, TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows, gpu::Stream stream) {
  require_version(version != Version::block, "add_rows");
  const std::int64_t count = rows.shape[0], cols = rows.shape[1];
  const auto* numbers = vector_of<const std::int32_t>(ids, "add_rows", count);
  const auto* weights = vector_of<const float>(factors, "add_rows", count);
  with_type(x.dtype, "add_rows", [&]<class T>(std::type_identity<T>) {
    const auto sums = activations<T>(x, "add_rows", x.shape[0], cols);
    const auto addends = activations<const T>(rows, "add_rows", count, cols);
    const int width = version == Version::fast ? pack_width(cols, sums, addends) : 1;
    const auto kernel = width > 1 ? add_rows_kernel<T, 16 / sizeof(T)> : add_rows_kernel<T, 1>;
    over_rows(count, cols, width, [&](gpu::Dim grid, unsigned threads, std::int64_t first) {
      gpu::launch(grid, threads, 0, stream, kernel, sums, numbers + first, weights + first, static_cast<int>(cols),
                  addends.from(first));
    });
  });
}

}  // namespace patchbay::PATCHBAY_GPU
