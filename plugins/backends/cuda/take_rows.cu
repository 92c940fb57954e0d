// Rows of a table by their numbers, as an embedding is looked up: out[t] = table[ids[t]].
//   naive  one thread per value
//   fast   16 bytes of the table per load and thread
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

/// The kernel runs where nobody can throw: a number that no row has shows as NaN, which the sampler refuses.
template <class W, class T, int kWidth>
__global__ void take_rows_kernel(Rows<const W> table, int table_rows, const std::int32_t* ids, int cols, Rows<T> out) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth, id = ids[blockIdx.y];
  if (c >= cols) return;
  gpu::Pack<T, kWidth> values;
  if (id < 0 || id >= table_rows) {
    for (int i = 0; i < kWidth; ++i) values.at[i] = from_float<T>(NAN);
  } else {
    const auto row = gpu::load_pack<kWidth>(table.data + id * table.stride + c);
    for (int i = 0; i < kWidth; ++i) values.at[i] = from_float<T>(to_float(row.at[i]));
  }
  gpu::store_pack(out.data + blockIdx.y * out.stride + c, values);
}

}  // namespace

void take_rows(Version version, TensorRef table, TensorRef ids, TensorRef out, gpu::Stream stream) {
  require_version(version != Version::block, "take_rows");
  const std::int64_t rows = ids.shape[0], table_rows = table.shape[0], cols = table.shape[1];
  const auto* numbers = vector_of<const std::int32_t>(ids, "take_rows", rows);
  with_type(table.dtype, "take_rows", [&]<class W>(std::type_identity<W>) {
    with_type(out.dtype, "take_rows", [&]<class T>(std::type_identity<T>) {
      const auto weights = activations<const W>(table, "take_rows", table_rows, cols);
      const auto target = activations<T>(out, "take_rows", rows, cols);
      constexpr int kWidth = 16 / std::max(sizeof(W), sizeof(T));
      const bool wide = version == Version::fast && pack_width(cols, weights) > 1 && pack_width(cols, target) > 1;
      const auto kernel = wide ? take_rows_kernel<W, T, kWidth> : take_rows_kernel<W, T, 1>;
      over_rows(rows, cols, wide ? kWidth : 1, [&](gpu::Dim grid, unsigned threads, std::int64_t first) {
        gpu::launch(grid, threads, 0, stream, kernel, weights, static_cast<int>(table_rows), numbers + first,
                    static_cast<int>(cols), target.from(first));
      });
    });
  });
}

}  // namespace patchbay::PATCHBAY_GPU
