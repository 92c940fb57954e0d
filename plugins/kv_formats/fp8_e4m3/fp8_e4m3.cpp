// KV rows as 8-bit floats with 4 bits of exponent and 3 of mantissa: relative error at most 2^-4, up to 448. Formulas: README.md.
#include "patchbay/fp8_kv_format.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

struct E4M3 {
  static constexpr const char* kName = "fp8_e4m3";
  static constexpr DType kType = DType::f8_e4m3;
  static constexpr Fp8Format kFormat = kE4M3;
};

}  // namespace

PATCHBAY_PLUGIN(KvFormat, Fp8KvFormat<E4M3>, "fp8_e4m3", "KV rows as 8-bit floats of 4 bits precision, up to 448, without scales",
                "Micikevicius et al. 2022, FP8 Formats for Deep Learning (arXiv:2209.05433)")

}  // namespace patchbay
