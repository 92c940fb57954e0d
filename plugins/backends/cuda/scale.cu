// Scaling (x *= factor) and the soft cap (x = cap * tanh(x / cap)) of activations, in place.
//   naive  one thread per value
//   fast   16 bytes per load and thread
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct SoftCap {
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};

template <class T, class Function>
__global__ void map_naive(Rows<T> x, int cols, Function function) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  T& value = x.data[blockIdx.y * x.stride + c];
  value = from_float<T>(function(to_float(value)));
}

template <class T, class Function, int kWidth>
__global__ void map_fast(Rows<T> x, int cols, Function function) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
  if (c >= cols) return;
  auto pack = gpu::load_pack<kWidth>(x.data + blockIdx.y * x.stride + c);
  for (int i = 0; i < kWidth; ++i) pack.at[i] = from_float<T>(function(to_float(pack.at[i])));
  gpu::store_pack(x.data + blockIdx.y * x.stride + c, pack);
}

template <class Function>
void map(Version version, TensorRef x, Function function, const char* operation, gpu::Stream stream) {
  require_version(version != Version::block, operation);
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  with_type(x.dtype, operation, [&]<class T>(std::type_identity<T>) {
    const auto values = activations<T>(x, operation, rows, cols);
    const int width = version == Version::fast ? pack_width(cols, values) : 1;
    const auto kernel = version == Version::naive ? map_naive<T, Function>
                        : width > 1               ? map_fast<T, Function, 16 / sizeof(T)>
                                                  : map_fast<T, Function, 1>;
    over_rows(rows, cols, width, [&](gpu::Dim grid, unsigned threads, std::int64_t first) {
      gpu::launch(grid, threads, 0, stream, kernel, values.from(first), static_cast<int>(cols), function);
    });
  });
}

}  // namespace

void scale(Version version, TensorRef x, float factor, gpu::Stream stream) { map(version, x, Scale{factor}, "scale", stream); }
void soft_cap(Version version, TensorRef x, float cap, gpu::Stream stream) { map(version, x, SoftCap{cap}, "soft_cap", stream); }

}  // namespace patchbay::PATCHBAY_GPU
