/// @file six_bit_group.cuh
/// The scale and minimum of one group of Q4_K and Q5_K; six_bit_scales.h is the same on the host.
#pragma once
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

struct GroupScales {
  float scale, minimum;
};

/// Group `g` of 8. The block begins with two fp16 steps; then come twelve bytes, six bits a number.
__device__ inline GroupScales six_bit_group(const std::uint8_t* block, int g) {
  const std::uint8_t* bytes = block + 4;
  const int scale = g < 4 ? bytes[g] & 63 : (bytes[g + 4] & 15) | bytes[g - 4] >> 6 << 4;
  const int minimum = g < 4 ? bytes[g + 4] & 63 : bytes[g + 4] >> 4 | bytes[g] >> 6 << 4;
  return {half_at(block) * static_cast<float>(scale), half_at(block + 2) * static_cast<float>(minimum)};
}

}  // namespace patchbay::PATCHBAY_GPU
