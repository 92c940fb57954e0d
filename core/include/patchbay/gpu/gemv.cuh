/// @file gemv.cuh
/// y(T,R) = x(T,C) w(R,C)^T for the few tokens of a decoding step. Each weight is used T times only, so that reading w is all the
/// cost.
#pragma once
#include "patchbay/gpu/matmul.cuh"
#include "patchbay/gpu/warp.cuh"

namespace patchbay::PATCHBAY_GPU {

struct Gemv {
  static constexpr int kWarps = 4, kThreads = 32 * kWarps, kRows = 4;
};

/// A block computes four rows; its threads share the columns, as many at a time as one load of the weight brings. So x is read
/// once for four rows, a thread has four loads of weights under way and more (the loop's next trip waits for none of them),
/// neighbouring threads read side by side, and weights become floats in registers, whatever their format.
template <class A, class Weights, class Y, int kTokens>
__global__ void __launch_bounds__(Gemv::kThreads) gemv(const A* x, Weights weights, Y y, int tokens, int rows, int cols) {
  constexpr int kRows = Gemv::kRows, kWarps = Gemv::kWarps, kEach = kAtOnce<Weights>;
  PATCHBAY_SHARED(float, sums, [Gemv::kWarps][kTokens * Gemv::kRows]);
  const int row0 = blockIdx.x * kRows, token0 = block_y() * kTokens, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token0 >= tokens) return;  // the whole block
  float sum[kTokens][kRows] = {};
#pragma unroll 2
  for (int c = threadIdx.x * kEach; c < cols; c += Gemv::kThreads * kEach) {
    float xs[kTokens][kEach];  // tokens and rows past the end repeat the last: never stored
    for (int t = 0; t < kTokens; ++t) load_span(x + static_cast<std::size_t>(min(token0 + t, tokens - 1)) * cols, c, cols, xs[t]);
    for (int r = 0; r < kRows; ++r) {
      float ws[kEach];
      weights.span(min(row0 + r, rows - 1), c, cols, ws);
      for (int t = 0; t < kTokens; ++t)
        for (int i = 0; i < kEach; ++i) sum[t][r] += xs[t][i] * ws[i];
    }
  }
  for (int t = 0; t < kTokens; ++t)
    for (int r = 0; r < kRows; ++r) {
      const float total = gpu::warp_sum(sum[t][r]);
      if (lane == 0) sums[warp][t * kRows + r] = total;
    }
  __syncthreads();  // every warp's share is there
  const int t = threadIdx.x / kRows, r = threadIdx.x % kRows;
  if (t >= kTokens || token0 + t >= tokens || row0 + r >= rows) return;
  float total = 0.0f;
  for (int w = 0; w < kWarps; ++w) total += sums[w][threadIdx.x];
  y.store(token0 + t, row0 + r, rows, total);
}

/// One token at a time, or four that share each weight read.
template <class A, class Weights, class Y>
void launch_gemv(const MatmulArgs& args, const A* x, Weights weights, Y y, gpu::Stream stream) {
  const auto run = [&](auto kernel, int tokens_each) {
    gpu::launch(folded_grid(gpu::ceil_div(args.rows, Gemv::kRows), gpu::ceil_div(args.tokens, tokens_each)), Gemv::kThreads, 0,
                stream, kernel, x, weights, y, args.tokens, args.rows, args.cols);
  };
  if (args.tokens == 1)
    run(gemv<A, Weights, Y, 1>, 1);
  else
    run(gemv<A, Weights, Y, 4>, 4);
}

}  // namespace patchbay::PATCHBAY_GPU
