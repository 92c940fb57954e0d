// GGUF's Q8_0 on a GPU, sixteen weights at a time. Formula (B1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q8_0.cpp: scale, codes[32].
struct Q8_0 {
  static constexpr int kColumns = 32, kBytes = 34;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    scaled(signed_bytes(sixteen_bytes<2>(block + 2 + span * kSpan)), half_at(block), 128, w);
  }
};

}  // namespace

void q8_0_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q8_0>(args, "q8_0", stream); }

}  // namespace patchbay::PATCHBAY_GPU
