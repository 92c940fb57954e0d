// Products with fp16 weights on a GPU; the kernels: patchbay/gpu/float_matmul.cuh.
#include "patchbay/gpu/float_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void fp16_matmul(const MatmulArgs& args, gpu::Stream stream) { float_matmul<__half>(args, "fp16", stream); }

}  // namespace patchbay::PATCHBAY_GPU
