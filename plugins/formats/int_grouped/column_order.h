// Columns that are stored in another order than the weight has them, as GPTQ's desc_act leaves them. Formula (I7): README.md.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "patchbay/tensor.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// The part `order`, u8 (C, 2): for each place j of the codes (order[j] - j) mod 2^16, lowest byte first. So zeros, which is what a
/// fresh part holds, say that nothing moved.
struct ColumnOrder {
  static constexpr std::int64_t kMostColumns = 1 << 16;

  /// @throws Error unless each column is there once.
  static void store(View<const std::int32_t, 1> order, TensorRef part);
  /// @throws Error for a column that is not there.
  static std::vector<std::int32_t> load(const TensorRef& part);
};

/// A product of columns in another order: x is brought into it, once per product, and `product` does the rest. x is rounded to 8 bits
/// (activations: q8) in blocks of the columns that then lie side by side.
std::unique_ptr<LinearKernel> multiply_in_order(std::unique_ptr<LinearKernel> product, std::vector<std::int32_t> order, Ops& ops);

}  // namespace patchbay
