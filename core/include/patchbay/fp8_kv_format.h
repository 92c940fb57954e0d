/// @file fp8_kv_format.h
/// What the KV formats fp8_e4m3 and fp8_e5m2 share: a byte per value, no scale. A plugin supplies its `Numbers`: kName, kType (of
/// tensor.h) and kFormat (of fp8.h).
#pragma once
#include "patchbay/fp8.h"
#include "patchbay/kv_rows.h"
#include "patchbay/params.h"

namespace patchbay {

template <class Numbers>
class Fp8KvFormat final : public KvFormat {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit Fp8KvFormat(const Params&) {}

  KvLayout layout() const override { return {Numbers::kType, false}; }
  std::int64_t row_bytes(std::int64_t head_size) const override { return head_size; }
  /// (F1), (F2)
  void encode(View<const float, 1> row, std::byte* out, Half*) const override {
    for (std::int64_t d = 0; d < row.shape[0]; ++d) out[d] = std::byte{encode_fp8(row[d], Numbers::kFormat)};
  }
  void decode(const std::byte* in, Half scale, View<float, 1> row) const override { decode_row(layout(), in, scale, row); }
  std::string_view name() const override { return Numbers::kName; }
};

}  // namespace patchbay
