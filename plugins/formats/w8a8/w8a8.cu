// Products of int8 inputs with int8 weights on a GPU. Formula (W5) and the bytes: README.md; the kernels: patchbay/gpu/scaled_matmul.cuh.
#include "patchbay/gpu/scaled_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void w8a8_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) { int8_matmul(args, stream); }

}  // namespace patchbay::PATCHBAY_GPU
