/// @file packed_matmul.cuh
/// The ladder for weights that are stored in fewer bits than they are multiplied in: what integer groups and GGUF's blocks share.
/// Weights are read as they are stored; floats of them exist in registers (naive, gemv) or in one tile of shared memory
/// (tensor_core) only.
#pragma once
#include "patchbay/gpu/gemv.cuh"
#include "patchbay/gpu/tensor_core_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

/// code - zero, for codes of up to 23 bits, without an instruction that converts (an eighth of the speed of a sum on some chips):
/// the float whose lowest bits are `code` and whose exponent is 23 is 2^23 + code.
__device__ inline float code_minus(unsigned code, float zero) {
  return __uint_as_float(0x4B000000u | code) - (8388608.0f + zero);
}

/// Step 1, naive: a thread per y, which decodes its whole row of w, sixteen columns at a time.
template <class A, class Weights, class Y>
__global__ void packed_naive(const A* x, Weights weights, Y y, int tokens, int rows, int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x, t = block_y();
  if (r >= rows || t >= tokens) return;
  float sum = 0.0f, xs[kSpan], ws[kSpan];
  for (int c = 0; c < cols; c += kSpan) {
    load_span(x + static_cast<std::size_t>(t) * cols, c, cols, xs);
    weights.span(r, c, cols, ws);
    for (int i = 0; i < kSpan; ++i) sum += xs[i] * ws[i];
  }
  y.store(t, r, rows, sum);
}
template <class A, class Weights, class Y>
void launch_packed_naive(const MatmulArgs& args, const A* x, Weights weights, Y y, gpu::Stream stream) {
  constexpr int kThreads = 128;
  gpu::launch(folded_grid(gpu::ceil_div(args.rows, kThreads), args.tokens), kThreads, 0, stream, packed_naive<A, Weights, Y>, x,
              weights, y, args.tokens, args.rows, args.cols);
}

/// Rows of a packed table by their numbers, as an embedding is looked up: a thread decodes sixteen columns of a token's row. A number
/// that no row has shows as NaN, which the sampler refuses.
template <class Weights>
__global__ void packed_take_rows(Weights weights, const std::int32_t* ids, Output y, int tokens, int rows, int cols) {
  const int item = blockIdx.x * blockDim.x + threadIdx.x, spans = (cols + kSpan - 1) / kSpan;
  const int t = item / spans, column = item % spans * kSpan;
  if (t >= tokens) return;
  const int row = ids[t];
  float w[kSpan];
  if (row >= 0 && row < rows) weights.span(row, column, cols, w);
  else for (float& value : w) value = NAN;
  for (int i = 0; i < kSpan && column + i < cols; ++i) y.store(t, column + i, cols, w[i]);
}
template <class Weights>
void launch_packed_take_rows(const MatmulArgs& args, Weights weights, gpu::Stream stream) {
  constexpr int kThreads = 128;
  const int items = args.tokens * gpu::ceil_div(args.cols, kSpan);
  gpu::launch(gpu::ceil_div(items, kThreads), kThreads, 0, stream, packed_take_rows<Weights>, weights, args.ids, Output{args.y, args.y_type},
              args.tokens, args.rows, args.cols);
}

/// Runs args.kernel on packed weights. @throws Error for one that they do not have.
template <class Weights>
void packed_matmul(const MatmulArgs& args, Weights weights, const char* format, gpu::Stream stream) {
  if (args.kernel == MatmulKernel::take_rows) return launch_packed_take_rows(args, weights, stream);
  const Output y{args.y, args.y_type};
  with_activation_type(args, format, [&](const auto* x) {
    switch (args.kernel) {
      case MatmulKernel::naive:
        return launch_packed_naive(args, x, weights, y, stream);
      case MatmulKernel::gemv:
        return launch_gemv(args, x, weights, y, stream);
      case MatmulKernel::tensor_core:
        require_columns(args, kSpan, format, "tensor_core");
        return launch_tensor_core(args, x, weights, y, stream);
      default:
        throw Error(std::string(format) + ": kernel", "packed weights do not have it", "naive, gemv, tensor_core");
    }
  });
}

}  // namespace patchbay::PATCHBAY_GPU
