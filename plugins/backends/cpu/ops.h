// The operations of the backend: checks shapes, cuts the work for the threads, calls the kernels of one set.
#pragma once
#include <vector>

#include "kernels.h"
#include "patchbay/backend.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay::cpu {

class CpuOps : public Ops, public HostProducts, public Int8Products {
 public:
  CpuOps(Device& device, const KernelSet& kernels) : device_(device), kernels_(kernels), scratch_(device.concurrency()) {}
  Device& device() override { return device_; }
  HostProducts& host() override { return *this; }
  void matmul_decoded(TensorRef x, std::int64_t rows, FunctionRef<void(std::int64_t, View<float, 2>)> decode,
                      TensorRef y) override;
  void matmul_stored(TensorRef x, TensorRef w, TensorRef y) override;
  std::unique_ptr<AffineWeight> prepare_affine(const AffineSource& source) override;
  void matmul_affine(const Q8Rows& x, const AffineWeight& w, TensorRef y) override;
  std::unique_ptr<AffineWeight> prepare_int8(View<const std::int8_t, 2> codes, View<const float, 1> scales) override;
  void matmul_int8(const RoundedRows& x, const AffineWeight& w, TensorRef y) override;
  void quantize_q8(TensorRef x, std::int8_t* codes, float* scales, std::int32_t* sums) override;
  void rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) override;
  void rope(TensorRef x, TensorRef positions, const RopeSpec& spec) override;
  void gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) override;
  void add(TensorRef x, TensorRef y) override;
  std::string_view kernel() const override { return kernels_.name; }

 private:
  /// Calls body(first, last) on rows [0, rows), on several threads when rows * row_items is worth waking them.
  template <class F> void over_rows(std::int64_t rows, std::int64_t row_items, F body);

  Device& device_;
  const KernelSet& kernels_;
  std::vector<Buffer> scratch_;        ///< decoded rows, one array per worker
  std::vector<float> offset_factors_;        ///< of the present matmul_affine: (T, blocks)
  std::vector<std::int32_t> starts_;         ///< likewise, and of matmul_int8: (T)
};

}  // namespace patchbay::cpu
