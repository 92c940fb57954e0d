/// @file six_bit_group.cuh
/// The scale and minimum of one group of Q4_K and Q5_K; six_bit_scales.h is the same on the host.
#pragma once
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

struct GroupScales {
  float scale, minimum;
};

/// Group `g` of 8. The block begins with two fp16 steps; then come twelve bytes, six bits a number. Blocks lie at multiples of 16
/// bytes, so that one load brings all of it.
__device__ inline GroupScales six_bit_group(const std::uint8_t* block, int g) {
  const uint4 head = *reinterpret_cast<const uint4*>(block);
  const int shift = g % 4 * 8;
  const unsigned scales = head.y >> shift & 255u, minima = head.z >> shift & 255u, low = head.w >> shift & 255u;
  const unsigned scale = g < 4 ? scales & 63u : (low & 15u) | scales >> 6 << 4;
  const unsigned minimum = g < 4 ? minima & 63u : low >> 4 | minima >> 6 << 4;
  gpu::Vector<__half, 2> steps;
  memcpy(static_cast<void*>(&steps), &head.x, sizeof steps);
  return {__half2float(steps[0]) * static_cast<float>(scale), __half2float(steps[1]) * static_cast<float>(minimum)};
}

}  // namespace patchbay::PATCHBAY_GPU
