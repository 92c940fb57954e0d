// KV rows as 8-bit floats with 5 bits of exponent and 2 of mantissa: fp16 without its last byte, rounded. Formulas: README.md.
#include "patchbay/fp8_kv_format.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

struct E5M2 {
  static constexpr const char* kName = "fp8_e5m2";
  static constexpr DType kType = DType::f8_e5m2;
  static constexpr Fp8Format kFormat = kE5M2;
};

}  // namespace

PATCHBAY_PLUGIN(KvFormat, Fp8KvFormat<E5M2>, "fp8_e5m2", "KV rows as 8-bit floats of 3 bits precision, up to 57344, without scales",
                "Micikevicius et al. 2022, FP8 Formats for Deep Learning (arXiv:2209.05433)")

}  // namespace patchbay
