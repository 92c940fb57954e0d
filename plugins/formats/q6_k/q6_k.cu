// GGUF's Q6_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q6_k.cpp: low_bits[128], high_bits[64], scales[16], scale_step.
struct Q6_K {
  static constexpr int kColumns = 256, kBytes = 210;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const float scale = half_at(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192 + span]));
    scaled(joined(bits_of_span<4, 64, 2>(block, span), bits_of_span<2, 32, 2>(block + 128, span), 4), scale, 32, w);
  }
};

}  // namespace

void q6_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q6_K>(args, "q6_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
