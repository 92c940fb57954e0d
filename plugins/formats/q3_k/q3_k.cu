// GGUF's Q3_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q3_k.cpp: high_bits[32], low_bits[64], scales[12], scale_step.
struct Q3_K {
  static constexpr int kColumns = 256, kBytes = 110;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const std::uint8_t* scales = block + 96;
    const int low = scales[span % 8] >> span / 8 * 4 & 15, high = scales[8 + span % 4] >> span / 4 * 2 & 3;
    const float scale = half_at(block + 108) * static_cast<float>((low | high << 4) - 32);
    scaled(joined(bits_of_span<2, 32, 2>(block + 32, span), bits_of_span<1, 32, 2>(block, span), 2), scale, 4, w);
  }
};

}  // namespace

void q3_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q3_K>(args, "q3_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
