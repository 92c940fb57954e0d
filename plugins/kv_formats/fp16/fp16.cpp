// KV rows as IEEE binary16: half the bytes of fp32, relative error at most 2^-11 (F1).
#include "fp16.h"

#include "patchbay/half.h"
#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

bool has_f16c() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

constexpr KernelInfo kKernels[] = {
    {"plain", "cpu", "both", "bit operations on each value: the definition"},
    {"f16c", "cpu", "both", "the processor's own conversion, 8 values at once; the same bits", has_f16c},
};

class Fp16 final : public KvFormat {
 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) { f.kernel("kernel", kernel, kKernels, {"how values are converted"}); }
    void check() const {
      if (kernel.prefill == kernel.decode) return;
      throw Error("kernel", "differs by phase, but a row is stored the same way in every phase", "one name");
    }
  };
  explicit Fp16(const Params& params) : f16c_(pick_kernel(params.kernel.prefill, kKernels, "fp16", "prefill").name == "f16c") {}

  KvLayout layout() const override { return {DType::f16, false}; }
  std::int64_t row_bytes(std::int64_t head_size) const override { return 2 * head_size; }

  void encode(View<const float, 1> row, std::byte* out, Half*) const override {
    auto* stored = reinterpret_cast<Half*>(out);
    std::int64_t d = f16c_ && row.strides[0] == 1 ? fp16::encode_f16c(row.data, row.shape[0], stored) : 0;
    for (; d < row.shape[0]; ++d) stored[d] = to_half(row[d]);  // (F1)
  }
  void decode(const std::byte* in, Half scale, View<float, 1> row) const override {
    if (!f16c_ || row.strides[0] != 1) return decode_row(layout(), in, scale, row);
    const auto* stored = reinterpret_cast<const Half*>(in);
    for (std::int64_t d = fp16::decode_f16c(stored, row.shape[0], row.data); d < row.shape[0]; ++d) row[d] = to_float(stored[d]);
  }
  std::string_view name() const override { return "fp16"; }

 private:
  bool f16c_;
};

}  // namespace

PATCHBAY_PLUGIN(KvFormat, Fp16, "fp16", "KV rows as 16-bit floats: 2 bytes per value, relative error below 0.05%",
                "IEEE 754-2008, binary16")

}  // namespace patchbay
