/// @file tensor_core_matmul.cuh
/// y(T,R) = x(T,C) w(R,C)^T on tensor cores: a warp multiplies 16 x 16 by 16 x 8 (of bytes, 16 x 32 by 32 x 8) in one
/// instruction.
#pragma once
#include "patchbay/gpu/async_copy.cuh"
#include "patchbay/gpu/matmul.cuh"
#include "patchbay/gpu/tensor_core.cuh"

namespace patchbay::PATCHBAY_GPU {

/// The tile of y that a block computes, and how its four warps divide it. Every shape sums a y in the same order.
template <int kTokens_, int kRows_, int kTokenWarps_>
struct MatmulTile {
  static constexpr int kTokens = kTokens_, kRows = kRows_, kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kTokenWarps = kTokenWarps_, kRowWarps = kWarps / kTokenWarps;
  static constexpr int kWarpTokens = kTokens / kTokenWarps, kWarpRows = kRows / kRowWarps;
};
using DecodeTile = MatmulTile<16, 64, 1>;    // few tokens: no work on rows of x that are not there
using PrefillTile = MatmulTile<64, 128, 2>;  // many: each number that is read is used 64 or 128 times
inline constexpr int kTileThreads = DecodeTile::kThreads;

/// One step along the columns: 64 bytes of each row, in four pieces of 16.
template <class A>
struct Depth {
  static constexpr int kColumns = 64 / sizeof(A), kVector = 16 / sizeof(A);
  static constexpr int kInstruction = 32 / sizeof(A);  // columns of one mma
};
template <class A, int kRows>
using Stage = A[kRows][Depth<A>::kColumns];

/// Where column k of a row begins in a stage. A row's pieces change places by a number of the row's own, so that whatever is moved
/// at once lies in eight different sets of four banks: two rows as they arrive, eight neighbouring rows' piece, and the same piece
/// of the eight rows of w that one mma takes (row_of_tile()).
template <class A>
__device__ inline A* place(A (*stage)[Depth<A>::kColumns], int row, int k) {
  constexpr int kVector = Depth<A>::kVector;
  const int piece = k / kVector ^ (row / 2 ^ row / 8) % 4;
  return &stage[row][piece * kVector + k % kVector];
}

/// Begins to fill a stage with rows row0 .. row0 + kRows - 1, columns k0 .. of numbers that have the type already: 16 bytes per
/// copy, without a detour through registers. Rows past the last repeat it (their results are never stored), columns past the last
/// are 0.
template <int kRows, class A>
__device__ inline void fill_stage(const Dense<A>& from, int row0, int rows, int k0, int cols, Stage<A, kRows>& stage) {
  constexpr int kVector = Depth<A>::kVector, kPerRow = Depth<A>::kColumns / kVector;
  for (int i = threadIdx.x; i < kRows * kPerRow; i += kTileThreads) {
    const int row = i / kPerRow, k = i % kPerRow * kVector;
    gpu::cp_async16(place<A>(stage, row, k), from.row(min(row0 + row, rows - 1), cols) + k0 + k, k0 + k < cols ? 16 : 0);
  }
}
/// The same for numbers of another type: decoded in registers on their way.
template <int kRows, class A, class Weights>
__device__ inline void fill_stage(const Weights& from, int row0, int rows, int k0, int cols, Stage<A, kRows>& stage) {
  constexpr int kPerRow = Depth<A>::kColumns / kSpan;
  for (int i = threadIdx.x; i < kRows * kPerRow; i += kTileThreads) {
    const int row = i / kPerRow, k = i % kPerRow * kSpan;
    float w[kSpan] = {};
    if (k0 + k < cols) from.span(min(row0 + row, rows - 1), k0 + k, cols, w);
    for (int half = 0; half < kSpan; half += 8) {
      gpu::Vector<A, 8> values;
      for (int j = 0; j < 8; ++j) values[j] = gpu::from_float<A>(w[half + j]);
      gpu::store(place<A>(stage, row, k + half), values);
    }
  }
}

/// The row of w, among the 8 * kTiles that a warp's lane stores side by side, that column n of tile j stands for. mma leaves columns
/// 2 q and 2 q + 1 of each tile with lane q of a row's four: of kTiles tiles these are to be 2 * kTiles neighbours.
template <int kTiles>
__device__ inline int row_of_tile(int j, int n) {
  return n / 2 * 2 * kTiles + j * 2 + n % 2;
}

template <class A, class Sum>
__device__ inline void multiply_fragments(Sum (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const std::uint32_t b[2] = {b0, b1};
  if constexpr (sizeof(A) == 1)
    gpu::mma_m16n8k32<A>(sum, a, b);
  else
    gpu::mma_m16n8k16<A>(sum, a, b);
}

/// A is the type in which x and w meet; X and Weights say how each is stored; sums are fp32, of integers int.
template <class A, class X, class Weights, class Y, class Tile>
__global__ void __launch_bounds__(Tile::kThreads) matmul_tensor_core(X x, Weights weights, Y y, int tokens, int rows, int cols) {
  using Sum = std::conditional_t<std::is_integral_v<A>, int, float>;
  constexpr int kTokenTiles = Tile::kWarpTokens / 16, kRowTiles = Tile::kWarpRows / 8;
  constexpr int kGroup = kRowTiles < 4 ? kRowTiles : 4, kWide = 2 * kGroup;  // tiles, and rows, that a lane stores side by side
  constexpr int kColumns = Depth<A>::kColumns, kVector = Depth<A>::kVector, kInstruction = Depth<A>::kInstruction;
  PATCHBAY_SHARED(A, x_stage, [2][Tile::kTokens][Depth<A>::kColumns]);
  PATCHBAY_SHARED(A, w_stage, [2][Tile::kRows][Depth<A>::kColumns]);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, token0 = blockIdx.y * Tile::kTokens,
            row0 = blockIdx.x * Tile::kRows;
  const int warp_token = warp / Tile::kRowWarps * Tile::kWarpTokens, warp_row = warp % Tile::kRowWarps * Tile::kWarpRows;

  const auto fill = [&](int stage, int k0) {
    fill_stage<Tile::kTokens, A>(x, token0, tokens, k0, cols, x_stage[stage]);
    fill_stage<Tile::kRows, A>(weights, row0, rows, k0, cols, w_stage[stage]);
    gpu::cp_async_commit();
  };

  Sum sum[kTokenTiles][kRowTiles][4] = {};
  fill(0, 0);
  for (int k0 = 0, stage = 0; k0 < cols; k0 += kColumns, stage ^= 1) {
    gpu::cp_async_wait<0>();
    __syncthreads();  // this stage has arrived, and the other one is no longer read
    if (k0 + kColumns < cols) fill(stage ^ 1, k0 + kColumns);  // travels while this stage is multiplied
    for (int k = 0; k < kColumns; k += kInstruction) {
      std::uint32_t a[kTokenTiles][4], b[kRowTiles / 2][4];
      for (int i = 0; i < kTokenTiles; ++i)
        gpu::ldmatrix_x4(a[i], place<A>(x_stage[stage], warp_token + i * 16 + lane % 16, k + lane / 16 * kVector));
      for (int j = 0; j < kRowTiles / 2; ++j) {  // two tiles of 8 rows, of each the first and the second 16 bytes
        const int tile = j * 2 + lane / 16, row = tile / kGroup * kGroup * 8 + row_of_tile<kGroup>(tile % kGroup, lane % 8);
        gpu::ldmatrix_x4(b[j], place<A>(w_stage[stage], warp_row + row, k + lane / 8 % 2 * kVector));
      }
      for (int i = 0; i < kTokenTiles; ++i)
        for (int j = 0; j < kRowTiles; ++j) multiply_fragments<A>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
  // The instruction leaves its 16 x 8 sums so: row lane / 4 (+ 8), column lane % 4 * 2 (+ 1); and see row_of_tile().
#pragma unroll
  for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int group = 0; group < kRowTiles / kGroup; ++group) {
        const int t = token0 + warp_token + i * 16 + lane / 4 + half * 8;
        const int r = row0 + warp_row + group * kGroup * 8 + lane % 4 * kWide;
        float values[kWide];
#pragma unroll
        for (int e = 0; e < kWide; ++e) values[e] = static_cast<float>(sum[i][group * kGroup + e / 2][half * 2 + e % 2]);
        if (t < tokens && r < rows) y.store_row(t, r, rows, values);
      }
}

template <class A, class X, class Weights, class Y>
void launch_tensor_core(const MatmulArgs& args, X x, Weights weights, Y y, gpu::Stream stream) {
  const auto run = [&]<class Tile>(Tile) {
    gpu::launch({gpu::ceil_div(args.rows, Tile::kRows), gpu::ceil_div(args.tokens, Tile::kTokens)}, Tile::kThreads, 0, stream,
                matmul_tensor_core<A, X, Weights, Y, Tile>, x, weights, y, args.tokens, args.rows, args.cols);
  };
  if (args.tokens <= DecodeTile::kTokens)
    run(DecodeTile{});
  else
    run(PrefillTile{});
}
/// x and the sums as usual: weights meet x in x's type.
template <class A, class Weights>
void launch_tensor_core(const MatmulArgs& args, const A* x, Weights weights, Output y, gpu::Stream stream) {
  launch_tensor_core<A>(args, Dense<A>{x}, weights, y, stream);
}

}  // namespace patchbay::PATCHBAY_GPU
