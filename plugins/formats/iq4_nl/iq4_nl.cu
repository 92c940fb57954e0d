// GGUF's IQ4_NL on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"
#include "patchbay/gpu/iq4_codes.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in iq4_nl.cpp: scale, nibbles[16].
struct Iq4Nl {
  static constexpr int kColumns = 32, kBytes = 18;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    scaled(iq4_codes(bits_of_span<4, 16, 2>(block + 2, span)), half_at(block), kIq4Zero, w);
  }
};

}  // namespace

void iq4_nl_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Iq4Nl>(args, "iq4_nl", stream); }

}  // namespace patchbay::PATCHBAY_GPU
