// GGUF's IQ4_XS on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"
#include "patchbay/gpu/iq4_codes.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in iq4_xs.cpp: scale_step, scales_high[2], scales_low[4], nibbles[128].
struct Iq4Xs {
  static constexpr int kColumns = 256, kBytes = 136;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const int group = span / 2;
    const int low = block[4 + group / 2] >> group % 2 * 4 & 15, high = block[2 + group / 4] >> group % 4 * 2 & 3;
    const float scale = half_at(block) * static_cast<float>((low | high << 4) - 32);
    scaled(iq4_codes(bits_of_span<4, 16, 8>(block + 8, span)), scale, kIq4Zero, w);
  }
};

}  // namespace

void iq4_xs_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Iq4Xs>(args, "iq4_xs", stream); }

}  // namespace patchbay::PATCHBAY_GPU
