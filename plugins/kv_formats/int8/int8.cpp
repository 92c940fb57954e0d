// KV rows as 8-bit integers with one fp16 scale per token and head: x ~ scale * code, |code| <= 127.
#include <algorithm>
#include <cmath>
#include <limits>

#include "patchbay/half.h"
#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

constexpr float kMaxCode = 127.0f;
constexpr float kMaxScale = 65504.0f;  // the largest fp16

class Int8 final : public KvFormat {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Int8(const Params&) {}

  KvLayout layout() const override { return {DType::i8, true}; }
  std::int64_t row_bytes(std::int64_t head_size) const override { return head_size; }

  void encode(View<const float, 1> row, std::byte* out, Half* scale) const override {
    auto* codes = reinterpret_cast<std::int8_t*>(out);
    const std::int64_t n = row.shape[0];
    float largest = 0.0f, poison = 0.0f;
    for (std::int64_t d = 0; d < n; ++d) {
      largest = std::max(largest, std::fabs(row[d]));  // a NaN is passed over here
      poison += std::isnan(row[d]) ? 1.0f : 0.0f;      // and found here
    }
    *scale = to_half(std::min(largest / kMaxCode, kMaxScale));  // (I1)
    // Codes are chosen for the scale as stored, so that its rounding costs nothing more.
    const float stored = to_float(*scale);
    if (poison > 0.0f) *scale = to_half(std::numeric_limits<float>::quiet_NaN());  // (I3): the whole row reads back as NaN
    if (poison > 0.0f || stored == 0.0f) return std::fill_n(codes, n, std::int8_t{0}), void();
    for (std::int64_t d = 0; d < n; ++d) {
      const float ratio = std::clamp(row[d] / stored, -kMaxCode, kMaxCode);
      codes[d] = static_cast<std::int8_t>(ratio + std::copysign(0.5f, ratio));  // (I2)
    }
  }
  void decode(const std::byte* in, Half scale, View<float, 1> row) const override { decode_row(layout(), in, scale, row); }
  std::string_view name() const override { return "int8"; }
};

}  // namespace

PATCHBAY_PLUGIN(KvFormat, Int8, "int8", "KV rows as 8-bit integers, one fp16 scale per token and head",
                "Sheng et al. 2023, FlexGen (quantised KV cache); here symmetric and per head")

}  // namespace patchbay
