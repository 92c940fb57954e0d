// GGUF's Q8_K on a GPU, sixteen weights at a time. Formula (S1): README.md; kernels: patchbay/gpu/block_matmul.cuh.
#include "patchbay/gpu/block_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// The bytes, as Stored in q8_k.cpp: scale (fp32), codes[256], sums[16].
struct Q8_K {
  static constexpr int kColumns = 256, kBytes = 292;
  __device__ static void decode(const std::uint8_t* block, int span, float (&w)[kSpan]) {
    const float scale = *reinterpret_cast<const float*>(block);
    scaled(signed_bytes(sixteen_bytes<4>(block + 4 + span * kSpan)), scale, 128, w);
  }
};

}  // namespace

void q8_k_matmul(const MatmulArgs& args, gpu::Stream stream) { block_matmul<Q8_K>(args, "q8_k", stream); }

}  // namespace patchbay::PATCHBAY_GPU
