// GGUF's Q5_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"
#include "patchbay/gpu/six_bit_group.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q5_k.cpp: scale_step, minimum_step, scales_and_minima[12], fifth_bits[32], nibbles[128].
struct Q5_K {
  static constexpr int kColumns = 256, kBytes = 176;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const GroupScales group = six_bit_group(block, span / 2);
    scaled(joined(bits_of_span<4, 32, 16>(block + 48, span), bits_of_span<1, 32, 16>(block + 16, span), 4), group.scale, 0, w,
           -group.minimum);
  }
};

}  // namespace

void q5_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q5_K>(args, "q5_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
