// Floats of 4 bits, as bitsandbytes has them: 0, 0.0625, 2, 3, 4, 6, 8 and 12, of either sign, over 12. Formula (P1): README.md; the rest is that of nf4.
#include "patchbay/level_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, fp4_matmul, (const LevelMatmulArgs&, gpu::Stream))  // fp4.cu

namespace {

struct Fp4 {
  static constexpr const char* kName = "fp4";
  static constexpr const LevelLauncher& kMatmul = gpu_launchers::fp4_matmul;
  static constexpr std::array<float, 16> kLevels = {
      {0.0f, 0.0625f / 12, 8.0f / 12, 12.0f / 12, 4.0f / 12, 6.0f / 12, 2.0f / 12, 3.0f / 12,
       -0.0f, -0.0625f / 12, -8.0f / 12, -12.0f / 12, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12}};
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, LevelFormat<Fp4>, "fp4", "floats of 4 bits as bitsandbytes has them: sign, two bits of exponent, one of mantissa; one scale per block",
                "bitsandbytes: its data type FP4")

}  // namespace patchbay
