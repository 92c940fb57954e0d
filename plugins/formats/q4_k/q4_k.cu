// GGUF's Q4_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"
#include "patchbay/gpu/six_bit_group.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q4_k.cpp: scale_step, minimum_step, scales_and_minima[12], nibbles[128].
struct Q4_K {
  static constexpr int kColumns = 256, kBytes = 144;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const GroupScales group = six_bit_group(block, span / 2);
    scaled(bits_of_span<4, 32, 16>(block + 16, span), group.scale, 0, w, -group.minimum);
  }
};

}  // namespace

void q4_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q4_K>(args, "q4_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
