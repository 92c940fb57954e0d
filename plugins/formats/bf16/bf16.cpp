// bfloat16: the upper half of a 32-bit float. Formulas (F1)...(F3): README.md.
#include "patchbay/float_format.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, bf16_matmul, (const MatmulArgs&, gpu::Stream))  // bf16.cu

namespace {

struct Bf16 {
  static constexpr const char* kName = "bf16";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::bf16_matmul;
  static constexpr float kLargest = 0x1.FEp127f;
  using Element = BFloat16;
  /// (F1) to nearest, ties to even; (F3) what would round past the largest number becomes it.
  static Element encode(float value) { return to_bfloat16(value > kLargest ? kLargest : value < -kLargest ? -kLargest : value); }
  static float decode(Element element) { return to_float(element); }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, FloatFormat<Bf16>, "bf16", "each weight a 16-bit float: the range of fp32, 8 bits of precision",
                "Wang and Kanwar 2019: BFloat16, the secret to high performance on Cloud TPUs")

}  // namespace patchbay
