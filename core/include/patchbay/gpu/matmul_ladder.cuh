/// @file matmul_ladder.cuh
/// y(T,R) = x(T,C) w(R,C)^T without tensor cores: three steps from the plainest kernel to one that keeps the multipliers busy.
#pragma once
#include "patchbay/gpu/matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

/// Step 1, naive: a thread per y. Neighbouring threads read neighbouring *rows* of w, C numbers apart, and each x and w is read
/// from global memory again for every y that needs it.
template <class A, class W>
__global__ void matmul_naive(const A* x, Dense<W> weights, Output y, int tokens, int rows, int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x, t = block_y();
  if (r >= rows || t >= tokens) return;
  const A* x_row = x + static_cast<std::size_t>(t) * cols;
  const W* w_row = weights.row(r, cols);
  float sum = 0.0f;
  for (int c = 0; c < cols; ++c) sum += gpu::to_float(x_row[c]) * gpu::to_float(w_row[c]);
  y.store(t, r, rows, sum);
}
template <class A, class W>
void launch_naive(const MatmulArgs& args, const A* x, Dense<W> weights, Output y, gpu::Stream stream) {
  constexpr int kThreads = 128;
  gpu::launch(folded_grid(gpu::ceil_div(args.rows, kThreads), args.tokens), kThreads, 0, stream, matmul_naive<A, W>, x, weights, y,
              args.tokens, args.rows, args.cols);
}

/// Step 2, tiled: a block computes 32 x 32 values of y. Tiles of x and w go through shared memory, so that each number is read
/// from global memory once per block, by neighbouring threads side by side, and used 32 times.
inline constexpr int kTile = 32;
template <class A, class W>
__global__ void __launch_bounds__(kTile* kTile)
    matmul_tiled(const A* x, Dense<W> weights, Output y, int tokens, int rows, int cols) {
  PATCHBAY_SHARED(float, x_tile, [kTile][kTile]);
  PATCHBAY_SHARED(float, w_tile, [kTile][kTile + 1]);  // + 1: a column of the tile lies in 32 banks
  const int i = threadIdx.y, j = threadIdx.x, row0 = blockIdx.x * kTile, token0 = blockIdx.y * kTile;
  // Rows past the end repeat the last: their results are never stored.
  const A* x_row = x + static_cast<std::size_t>(min(token0 + i, tokens - 1)) * cols;
  const W* w_row = weights.row(min(row0 + i, rows - 1), cols);
  float sum = 0.0f;
  for (int k0 = 0; k0 < cols; k0 += kTile) {
    x_tile[i][j] = k0 + j < cols ? gpu::to_float(x_row[k0 + j]) : 0.0f;
    w_tile[i][j] = k0 + j < cols ? gpu::to_float(w_row[k0 + j]) : 0.0f;
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < kTile; ++k) sum += x_tile[i][k] * w_tile[j][k];
    __syncthreads();  // the tiles may be overwritten
  }
  if (token0 + i < tokens && row0 + j < rows) y.store(token0 + i, row0 + j, rows, sum);
}
template <class A, class W>
void launch_tiled(const MatmulArgs& args, const A* x, Dense<W> weights, Output y, gpu::Stream stream) {
  gpu::launch({gpu::ceil_div(args.rows, kTile), gpu::ceil_div(args.tokens, kTile)}, {kTile, kTile}, 0, stream, matmul_tiled<A, W>,
              x, weights, y, args.tokens, args.rows, args.cols);
}

/// Step 3, vectorised: a block computes 64 x 64, each thread 4 x 4 in registers. Global memory is read 16 bytes at a time and
/// shared memory four floats at a time: 8 loads for 64 products where step 2 needs 2 for one.
struct Vectorised {
  static constexpr int kSide = 64, kDepth = 32, kThreads = 256, kEach = 4, kStep = kSide / kEach;
  static constexpr int kStride = kDepth + 4;  // 4 more: eight rows' float4 lie in 32 different banks
};

/// Copies rows row0 .. row0 + 63, columns k0 .. k0 + 31 of a (rows, cols) array as floats; 0 past the last column.
template <class T>
__device__ inline void fill_tile(const T* from, int row0, int rows, int k0, int cols,
                                 float (&tile)[Vectorised::kSide][Vectorised::kStride]) {
  constexpr int kVector = 16 / sizeof(T), kPerRow = Vectorised::kDepth / kVector;
  for (int i = threadIdx.x; i < Vectorised::kSide * kPerRow; i += Vectorised::kThreads) {
    const int row = i / kPerRow, k = i % kPerRow * kVector;
    float values[kVector];
    load_span(from + static_cast<std::size_t>(min(row0 + row, rows - 1)) * cols, k0 + k, cols, values);
    for (int j = 0; j < kVector; j += 4)
      *reinterpret_cast<float4*>(&tile[row][k + j]) = make_float4(values[j], values[j + 1], values[j + 2], values[j + 3]);
  }
}

template <class A, class W>
__global__ void __launch_bounds__(Vectorised::kThreads)
    matmul_vectorised(const A* x, Dense<W> weights, Output y, int tokens, int rows, int cols) {
  constexpr int kSide = Vectorised::kSide, kEach = Vectorised::kEach, kStep = Vectorised::kStep;
  PATCHBAY_SHARED(float, x_tile, [Vectorised::kSide][Vectorised::kStride]);
  PATCHBAY_SHARED(float, w_tile, [Vectorised::kSide][Vectorised::kStride]);
  const int ti = threadIdx.x / kStep, rj = threadIdx.x % kStep, token0 = blockIdx.y * kSide, row0 = blockIdx.x * kSide;
  float sum[kEach][kEach] = {};
  for (int k0 = 0; k0 < cols; k0 += Vectorised::kDepth) {
    fill_tile(x, token0, tokens, k0, cols, x_tile);
    fill_tile(weights.data, row0, rows, k0, cols, w_tile);
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < Vectorised::kDepth; k += 4) {
      float4 xs[kEach], ws[kEach];
      for (int i = 0; i < kEach; ++i) xs[i] = *reinterpret_cast<const float4*>(&x_tile[ti + i * kStep][k]);
      for (int j = 0; j < kEach; ++j) ws[j] = *reinterpret_cast<const float4*>(&w_tile[rj + j * kStep][k]);
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) {
          sum[i][j] += xs[i].x * ws[j].x;
          sum[i][j] += xs[i].y * ws[j].y;
          sum[i][j] += xs[i].z * ws[j].z;
          sum[i][j] += xs[i].w * ws[j].w;
        }
    }
    __syncthreads();  // the tiles may be overwritten
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int t = token0 + ti + i * kStep, r = row0 + rj + j * kStep;
      if (t < tokens && r < rows) y.store(t, r, rows, sum[i][j]);
    }
}
template <class A, class W>
void launch_vectorised(const MatmulArgs& args, const A* x, Dense<W> weights, Output y, gpu::Stream stream) {
  gpu::launch({gpu::ceil_div(args.rows, Vectorised::kSide), gpu::ceil_div(args.tokens, Vectorised::kSide)}, Vectorised::kThreads,
              0, stream, matmul_vectorised<A, W>, x, weights, y, args.tokens, args.rows, args.cols);
}

}  // namespace patchbay::PATCHBAY_GPU
