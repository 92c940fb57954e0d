// Products with bf16 weights on a GPU; the kernels: patchbay/gpu/float_matmul.cuh.
#include "patchbay/gpu/float_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void bf16_matmul(const MatmulArgs& args, gpu::Stream stream) { float_matmul<__nv_bfloat16>(args, "bf16", stream); }

}  // namespace patchbay::PATCHBAY_GPU
