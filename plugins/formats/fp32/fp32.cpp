// Weights as they are computed with: one 32-bit float each. The baseline of every other format. Formula (F1): README.md.
#include "patchbay/float_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, fp32_matmul, (const MatmulArgs&, gpu::Stream))  // fp32.cu

namespace {

struct Fp32 {
  static constexpr const char* kName = "fp32";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::fp32_matmul;
  static constexpr float kLargest = std::numeric_limits<float>::max();
  using Element = float;
  static Element encode(float value) { return value; }  // (F1)
  static float decode(Element element) { return element; }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, FloatFormat<Fp32>, "fp32", "each weight a 32-bit float: exact, the baseline of every format",
                "IEEE 754 binary32")

}  // namespace patchbay
