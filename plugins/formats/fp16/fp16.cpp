// Half precision: 5 bits of exponent, 11 of precision. Formulas (F1)...(F3): README.md.
#include "patchbay/float_format.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, fp16_matmul, (const MatmulArgs&, gpu::Stream))  // fp16.cu

namespace {

struct Fp16 {
  static constexpr const char* kName = "fp16";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::fp16_matmul;
  static constexpr float kLargest = 65504.0f;
  using Element = Half;
  /// (F1) to nearest, ties to even; (F3) what lies past the largest number becomes it: one infinite weight would spoil all.
  static Element encode(float value) { return to_half(value > kLargest ? kLargest : value < -kLargest ? -kLargest : value); }
  static float decode(Element element) { return to_float(element); }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, FloatFormat<Fp16>, "fp16", "each weight a 16-bit float: 11 bits of precision, up to 65504",
                "IEEE 754 binary16")

}  // namespace patchbay
