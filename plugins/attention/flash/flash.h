// The inner operations of flash attention, one table per instruction set. R rows of queries, D head size.
#pragma once
#include <cstdint>

#include "patchbay/kv_store.h"

namespace patchbay::flash {

/// Slots of a tile. Tiles begin at multiples of it, whatever the step and the store look like: that, and sums that run in slot
/// order, make a row's result the same bits in any batch.
inline constexpr std::int64_t kTile = 64;
/// Rows whose scores are computed together: each loaded vector of keys serves all of them.
inline constexpr std::int64_t kRowGroup = 4;
/// Strides of scratch rows are multiples of this, in floats: every kernel's `columns` divides it, and it is two cache lines.
inline constexpr std::int64_t kAlignment = 32;

struct TileKernels {
  /// multiply_add computes columns in steps of this many.
  std::int64_t columns;
  /// out[n] = scale * in[n], stored as `type`.
  void (*decode)(DType type, const std::byte* in, float scale, std::int64_t n, float* out);
  /// columns(D, kTile) = rows(count, stride) transposed; `count` is rounded up to a multiple of 8.
  void (*transpose)(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t d, float* columns);
  /// c(rows,cols) += a(rows,depth) b(depth,cols), each element summed in the order of depth. rows <= kRowGroup.
  void (*multiply_add)(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                       std::int64_t c_stride, std::int64_t rows, std::int64_t depth, std::int64_t cols);
  /// Scores (kTile) of one row made finite, and capped when soft_cap > 0.
  void (*finish_scores)(float* scores, float soft_cap);
  /// One step of the online softmax (F2)-(F4): scores (kTile; -inf where masked) become weights; the row's running maximum,
  /// running sum and output(cols) so far follow the new maximum.
  void (*softmax_step)(float* scores, float& maximum, float& sum, float* output, std::int64_t cols);
};

extern const TileKernels kPlain, kAvx2, kAvx512;

}  // namespace patchbay::flash
