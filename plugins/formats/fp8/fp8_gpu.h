// What the host gives to fp8.cu.
#pragma once
#include "patchbay/gpu/scaled_matmul.h"
#include "patchbay/gpu_linear.h"

namespace patchbay {

struct Fp8MatmulArgs {
  ScaledMatmulArgs scaled;
  bool is_e5m2 = false;
  int group_size = 0;  ///< columns that share a scale; 0: a whole row does, or all rows
};
PATCHBAY_GPU_LAUNCHER(void, fp8_matmul, (const Fp8MatmulArgs&, gpu::Stream))
/// Whether the device multiplies 8-bit floats (sm_89).
PATCHBAY_GPU_LAUNCHER(bool, fp8_has_products, (gpu::Stream))

}  // namespace patchbay
