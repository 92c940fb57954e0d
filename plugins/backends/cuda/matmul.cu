// The product of activations with a weight of plain numbers, y[t][r] = x[t] . w[r]: a thread per element of y, columns in their order. The
// definition; formats bring faster ones (plugins/formats/).
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kThreads = 128;

template <class X, class W, class Y>
__global__ void matmul_kernel(Rows<const X> x, Rows<const W> w, int rows, int cols, Rows<Y> y) {
  const int row = blockIdx.x * kThreads + threadIdx.x, token = blockIdx.y;
  if (row >= rows) return;
  const X* const input = x.data + token * x.stride;
  const W* const weight = w.data + row * w.stride;
  float sum = 0;
  for (int c = 0; c < cols; ++c) sum += gpu::to_float(input[c]) * gpu::to_float(weight[c]);
  y.data[token * y.stride + row] = gpu::from_float<Y>(sum);
}

}  // namespace

void matmul_stored(TensorRef x, TensorRef w, TensorRef y, gpu::Stream stream) {
  const std::int64_t tokens = x.shape[0], rows = w.shape[0], cols = x.shape[1];
  if (tokens == 0 || rows == 0) return;
  with_type(x.dtype, "matmul_stored", [&]<class X>(std::type_identity<X>) {
    with_type(w.dtype, "matmul_stored", [&]<class W>(std::type_identity<W>) {
      const auto launch = [&]<class Y>(std::type_identity<Y>) {
        const auto inputs = activations<const X>(x, "matmul_stored", tokens, cols);
        const auto weights = activations<const W>(w, "matmul_stored", rows, cols);
        const auto outputs = activations<Y>(y, "matmul_stored", tokens, rows);
        constexpr std::int64_t kMostTokens = 65535;
        for (std::int64_t first = 0; first < tokens; first += kMostTokens) {
          gpu::launch(gpu::Dim(blocks_for(rows, kThreads), static_cast<unsigned>(std::min(kMostTokens, tokens - first))), kThreads, 0, stream,
                      matmul_kernel<X, W, Y>, inputs.from(first), weights, static_cast<int>(rows), static_cast<int>(cols),
                      outputs.from(first));
        }
      };
      if (y.dtype == DType::f32) launch(std::type_identity<float>());
      else launch(std::type_identity<X>());
    });
  });
}

}  // namespace patchbay::PATCHBAY_GPU
