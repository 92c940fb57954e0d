/// @file level_matmul.cuh
/// Products with codes of 4 bits that name uneven levels (patchbay/level_format.h): levels are read from a table of 64 bytes, which
/// stays in the nearest cache.
#pragma once
#include "patchbay/gpu/level_matmul.h"
#include "patchbay/gpu/packed_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

struct LevelWeights {
  const std::uint8_t* codes;
  const void* scales;
  const float* second;  // null: scales are floats
  const float *levels, *scale_levels;
  int block_size, blocks, second_count;

  explicit LevelWeights(const LevelMatmulArgs& args)
      : codes(static_cast<const std::uint8_t*>(args.product.parts[0])),
        scales(args.product.parts[1]),
        second(args.nested ? static_cast<const float*>(args.product.parts[2]) : nullptr),
        levels(args.levels),
        scale_levels(args.levels + 16),
        block_size(args.block_size),
        blocks(args.product.cols / args.block_size),
        second_count(gpu::ceil_div(args.product.rows, 256) + 1) {}

  __device__ float scale(int row, int block) const {
    const std::size_t i = static_cast<std::size_t>(row) * blocks + block;
    if (!second) return static_cast<const float*>(scales)[i];
    const float* of_block = second + block * second_count;
    return scale_levels[static_cast<const std::uint8_t*>(scales)[i]] * of_block[row / 256] + of_block[second_count - 1];
  }
  /// Eight bytes, the first column in the upper half of each.
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    const float of_block = scale(row, column / block_size);
    const auto bytes = gpu::load<8>(codes + static_cast<std::size_t>(row) * (cols / 2) + column / 2);
    for (int i = 0; i < kSpan; i += 2) {
      w[i] = of_block * levels[bytes[i / 2] >> 4];
      w[i + 1] = of_block * levels[bytes[i / 2] & 15];
    }
  }
};

inline void level_matmul(const LevelMatmulArgs& args, const char* format, gpu::Stream stream) {
  packed_matmul(args.product, LevelWeights(args), format, stream);
}

}  // namespace patchbay::PATCHBAY_GPU
