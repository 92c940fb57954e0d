// Products with fp4 on a GPU: patchbay/gpu/level_matmul.cuh.
#include "patchbay/gpu/level_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void fp4_matmul(const LevelMatmulArgs& args, gpu::Stream stream) { level_matmul(args, "fp4", stream); }

}  // namespace patchbay::PATCHBAY_GPU
