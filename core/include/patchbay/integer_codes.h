/// @file integer_codes.h
/// Weights as whole numbers with scales: what a format and the layouts of other programs' files (GPTQ, AWQ) have in common.
#pragma once
#include <cstdint>
#include <vector>

#include "patchbay/weight_format.h"

namespace patchbay {

/// A matrix R x C of w = scale * (code - zero); a row's group of columns shares scale and zero.
struct IntegerCodes {
  int bits = 4;
  std::int64_t rows = 0, cols = 0, group = 0;  ///< columns of a group, neighbours in the order of `codes`
  std::vector<std::uint8_t> codes;             ///< (R,C): column j is column order[j] of the weight
  std::vector<Half> scales;                    ///< (R,C/group)
  std::vector<std::uint8_t> zeros;             ///< (R,C/group): the code that stands for 0
  std::vector<std::int32_t> order;             ///< (C), or empty: j
  std::int64_t groups() const { return group > 0 ? cols / group : 0; }
};

/// What a weight format is as well whose parts say no more than that. All methods are const and may be called from several threads.
class PATCHBAY_API HoldsIntegerCodes {
 public:
  virtual ~HoldsIntegerCodes();
  virtual int code_bits() const = 0;
  virtual IntegerCodes integer_codes(const PackedWeight& w) const = 0;
  /// `out` is allocated for such a weight. @throws Error for codes that this format's parameters cannot mean.
  virtual void store_integer_codes(const IntegerCodes& codes, PackedWeight& out) const = 0;
};

}  // namespace patchbay
