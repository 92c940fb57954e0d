// KV rows as floats: nothing is lost. The baseline that the other formats are measured against.
#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Fp32 final : public KvFormat {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Fp32(const Params&) {}

  KvLayout layout() const override { return {DType::f32, false}; }
  std::int64_t row_bytes(std::int64_t head_size) const override { return 4 * head_size; }
  void encode(View<const float, 1> row, std::byte* out, Half*) const override {
    auto* stored = reinterpret_cast<float*>(out);
    for (std::int64_t d = 0; d < row.shape[0]; ++d) stored[d] = row[d];
  }
  void decode(const std::byte* in, Half scale, View<float, 1> row) const override { decode_row(layout(), in, scale, row); }
  std::string_view name() const override { return "fp32"; }
};

}  // namespace

PATCHBAY_PLUGIN(KvFormat, Fp32, "fp32", "KV rows as 32-bit floats: exact, 4 bytes per value", "")

}  // namespace patchbay
