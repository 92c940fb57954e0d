/// @file level_matmul.h
/// What the launcher of a format of uneven levels takes (patchbay/level_format.h).
#pragma once
#include "patchbay/gpu/matmul.h"

namespace patchbay {

struct LevelMatmulArgs {
  MatmulArgs product;             ///< parts: codes; scales of blocks, f32 or, nested, u8; nested: second scales, f32
  const float* levels = nullptr;  ///< on the device: the sixteen levels, then the 256 of the scales
  int block_size = 64;
  bool nested = false;
};

}  // namespace patchbay
