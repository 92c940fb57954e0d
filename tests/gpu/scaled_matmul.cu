// Products of 8-bit numbers (patchbay/gpu/scaled_matmul.cuh), until the formats w8a8 and fp8 bring them.
#include "patchbay/gpu/scaled_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void w8a8_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) { int8_matmul(args, stream); }
void w8a8_quantize_tokens(const QuantizeTokensArgs& args, gpu::Stream stream) {
  launch_quantize_tokens<std::int8_t>(args, stream);
}
void fp8_e4m3_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) { fp8_matmul(args, stream); }
void fp8_e4m3_quantize_tokens(const QuantizeTokensArgs& args, gpu::Stream stream) {
  launch_quantize_tokens<__nv_fp8_e4m3>(args, stream);
}

}  // namespace patchbay::PATCHBAY_GPU
