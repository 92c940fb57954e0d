// The kept columns' share of a product on a GPU. Formula (K4): README.md.
#include "patchbay/gpu/matmul.cuh"
#include "salient_gpu.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

__device__ float number_at(const Output& y, std::size_t i) {
  if (y.type == DType::f32) return static_cast<const float*>(y.data)[i];
  if (y.type == DType::f16) return __half2float(static_cast<const __half*>(y.data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(y.data)[i]);
}

/// A thread per y: of a few columns, so that reading y and the differences is all the cost.
template <class A>
__global__ void add_kept_columns(const A* x, const std::int32_t* columns, const float* differences, Output y, int tokens, int rows, int cols, int kept) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x, t = block_y();
  if (r >= rows || t >= tokens) return;
  float sum = 0.0f;
  for (int k = 0; k < kept; ++k)
    sum += gpu::to_float(x[static_cast<std::size_t>(t) * cols + columns[k]]) * differences[static_cast<std::size_t>(r) * kept + k];
  y.store(t, r, rows, number_at(y, static_cast<std::size_t>(t) * rows + r) + sum);
}

}  // namespace

void salient_add(const KeptColumnsArgs& args, gpu::Stream stream) {
  constexpr int kThreads = 128;
  MatmulArgs product;
  product.x = args.x;
  product.x_type = args.x_type;
  with_activation_type(product, "salient", [&]<class A>(const A* x) {
    gpu::launch(folded_grid(gpu::ceil_div(args.rows, kThreads), args.tokens), kThreads, 0, stream, add_kept_columns<A>, x, args.columns, args.differences,
                Output{args.y, args.y_type}, args.tokens, args.rows, args.cols, args.kept);
  });
}

}  // namespace patchbay::PATCHBAY_GPU
