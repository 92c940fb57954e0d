// A step's keys and values into the cache of a layer, in its number format.
//   naive  one thread per row (of a token and head)
//   fast   one warp per row: neighbouring lanes store neighbouring values, and
//   the largest is found by shuffles
#include "cuda_ops.h"
#include "kv_rows.cuh"
#include "rope.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// blockIdx.y: the head; blockIdx.z: 0 for keys, 1 for values.
template <class T, int kLanes>
__global__ void write_kv_kernel(Heads<const T> k, Heads<const T> v, gpu::LayerStep step, int rows, int size) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes, head = blockIdx.y;
  if (row >= rows) return;  // whole groups
  const bool values = blockIdx.z == 1;
  const Heads<const T>& from = values ? v : k;
  const T* const in = from.data + row * from.row_stride + head * from.head_stride;
  write_row<kLanes>(step, row, head, values, size, [&](int d) { return gpu::to_float(in[d]); });
}

}  // namespace

void write_kv(Version version, TensorRef k, TensorRef v, const GpuStep& step, int layer, gpu::Stream stream) {
  require_version(version != Version::block, "write_kv");
  require_layout(step.shape.layout, "write_kv");
  if (step.rows == 0) return;
  with_type(k.dtype, "write_kv", [&]<class T>(std::type_identity<T>) {
    const auto keys = heads_of<const T>(k, "write_kv"), values = heads_of<const T>(v, "write_kv");
    require(k.shape == v.shape && k.shape[0] == step.rows, "write_kv", "keys and values are not (rows of the step, heads, size)");
    const int lanes = version == Version::naive ? 1 : 32, threads = 128;
    const auto kernel = version == Version::naive ? write_kv_kernel<T, 1> : write_kv_kernel<T, 32>;
    gpu::launch(gpu::Dim(blocks_for(step.rows * lanes, threads), k.shape[1], 2), threads, 0, stream, kernel, keys, values,
                gpu::layer_step(step, layer), static_cast<int>(step.rows), static_cast<int>(k.shape[2]));
  });
}

}  // namespace patchbay::PATCHBAY_GPU
