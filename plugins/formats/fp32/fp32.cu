// Products with fp32 weights on a GPU; the kernels: patchbay/gpu/float_matmul.cuh.
#include "patchbay/gpu/float_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void fp32_matmul(const MatmulArgs& args, gpu::Stream stream) { float_matmul<float>(args, "fp32", stream); }

}  // namespace patchbay::PATCHBAY_GPU
