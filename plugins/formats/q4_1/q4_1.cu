// GGUF's Q4_1 on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q4_1.cpp: scale, minimum, nibbles[16].
struct Q4_1 {
  static constexpr int kColumns = 32, kBytes = 20;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    scaled(bits_of_span<4, 16, 4>(block + 4, span), half_at(block), 0, w, half_at(block + 2));
  }
};

}  // namespace

void q4_1_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q4_1>(args, "q4_1", stream); }

}  // namespace patchbay::PATCHBAY_GPU
