// GGUF's Q4_0 on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q4_0.cpp: scale, nibbles[16].
struct Q4_0 {
  static constexpr int kColumns = 32, kBytes = 18;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    scaled(bits_of_span<4, 16, 2>(block + 2, span), half_at(block), 8, w);
  }
};

}  // namespace

void q4_0_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q4_0>(args, "q4_0", stream); }

}  // namespace patchbay::PATCHBAY_GPU
