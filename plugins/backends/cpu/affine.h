// How an affine weight (w = scale * code + offset, per block of 32 columns) lies in memory for the integer kernels.
//
// Rows are cut into tiles of `lanes`, so that one vector holds the same 4 columns of `lanes` rows. A tile is
//   codes   [block][step of 4 columns][lane][4]   one byte each; bits 4: low nibble step s, high nibble step s + 4
//   scales  [block][lane]                         fp16 where every one is exact, else fp32
//   offsets [block][lane]                         likewise; left out when offset = -zero * scale throughout
// and is padded to 64 bytes; lanes past the last row are zeros.
#pragma once
#include <cstdint>
#include <memory>

#include "patchbay/backend.h"

namespace patchbay::cpu {

inline constexpr int kBlock = 32;       ///< columns that share a scale
inline constexpr int kNoZero = -1;      ///< offsets are stored

/// Plain data, so that the vector kernels can read it without calling inline functions (see kernels.h).
struct AffineLayout {
  std::int64_t rows = 0, cols = 0, blocks = 0, tiles = 0;
  int lanes = 1;
  int bits = 8;           ///< 4: two codes per byte
  int max_code = 255;     ///< the largest there is: decides which sums fit 16 bits
  bool row_scales = false;  ///< of an int8 weight: one scale per row
  int zero = kNoZero;     ///< the constant z with offset = -z * scale, or kNoZero
  bool half = false;      ///< scales and offsets are fp16
  std::int64_t block_code_bytes = 0, block_scale_bytes = 0;
  std::int64_t scales_at = 0, offsets_at = 0, tile_bytes = 0;  ///< within a tile
};

/// An int8 weight lies so too, its codes 128 larger, with one fp32 scale per lane behind them all and no offsets: the zero is 128.
inline constexpr int kInt8Zero = 128;

class CpuAffineWeight : public AffineWeight {
 public:
  AffineLayout layout;
  Buffer data;
  std::int64_t bytes() const override { return data.size(); }
};

/// Reads the source twice: once to see what it needs, once to pack. Rows are spread over the device's threads.
/// `compact` allows fp16 scales and implied offsets.
std::unique_ptr<CpuAffineWeight> pack_affine(const AffineSource& source, int lanes, bool compact, Device& device);

std::unique_ptr<CpuAffineWeight> pack_int8(View<const std::int8_t, 2> codes, View<const float, 1> scales, int lanes, Device& device);

}  // namespace patchbay::cpu
