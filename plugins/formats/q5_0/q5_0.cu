// GGUF's Q5_0 on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q5_0.cpp: scale, fifth_bits[4], nibbles[16].
struct Q5_0 {
  static constexpr int kColumns = 32, kBytes = 22;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const unsigned fifth_bits = word_at<2>(block + 2) >> span * kSpan;
    scaled(with_fifth_bits(bits_of_span<4, 16, 2>(block + 6, span), fifth_bits), half_at(block), 16, w);
  }
};

}  // namespace

void q5_0_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q5_0>(args, "q5_0", stream); }

}  // namespace patchbay::PATCHBAY_GPU
