// GGUF's Q5_1 on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q5_1.cpp: scale, minimum, fifth_bits[4], nibbles[16].
struct Q5_1 {
  static constexpr int kColumns = 32, kBytes = 24;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const unsigned fifth_bits = word_at<4>(block + 4) >> span * kSpan;
    scaled(with_fifth_bits(bits_of_span<4, 16, 4>(block + 8, span), fifth_bits), half_at(block), 0, w, half_at(block + 2));
  }
};

}  // namespace

void q5_1_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q5_1>(args, "q5_1", stream); }

}  // namespace patchbay::PATCHBAY_GPU
