// Products with nf4 on a GPU: patchbay/gpu/level_matmul.cuh.
#include "patchbay/gpu/level_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void nf4_matmul(const LevelMatmulArgs& args, gpu::Stream stream) { level_matmul(args, "nf4", stream); }

}  // namespace patchbay::PATCHBAY_GPU
