// GGUF's Q2_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q2_k.cpp: scales_and_minima[16], codes[64], scale_step, minimum_step.
struct Q2_K {
  static constexpr int kColumns = 256, kBytes = 84;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const float scale = half_at(block + 80) * static_cast<float>(block[span] & 15);
    const float minimum = half_at(block + 82) * static_cast<float>(block[span] >> 4);
    scaled(bits_of_span<2, 32, 4>(block + 16, span), scale, 0, w, -minimum);
  }
};

}  // namespace

void q2_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q2_K>(args, "q2_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
