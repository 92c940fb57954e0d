/// @file block_format.h
/// What the block formats of GGUF files share: each row is cut into blocks of 32 columns, and a block is a small struct with its
/// own scale. A plugin supplies the struct and its formulas as a `Block`; BlockFormat<Block> is then the whole weight format.
#pragma once
#include <array>
#include <cstring>
#include <vector>

#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/scale_search.h"
#include "patchbay/weight_format.h"

namespace patchbay {

inline constexpr std::int64_t kBlockColumns = 32;
using BlockWeights = std::array<float, kBlockColumns>;
using BlockCodes = std::array<std::uint8_t, kBlockColumns>;

/// What a block says besides its codes.
struct BlockScale {
  float scale = 0, offset = 0;  ///< as stored: fp16 values
  float inverse = 0, base = 0;  ///< for rounding: from the *unrounded* scale and minimum, as ggml's reference does
};

/// 1 / scale, or 0 where that is no finite number: such a block is all zeros once its scale is stored in 16 bits.
inline float inverse_of(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}
/// The first weight of largest magnitude, with its sign.
inline float signed_extreme(const BlockWeights& w) {
  float extreme = 0.0f;
  for (float value : w) if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  return extreme;
}
/// floor(x) as a code in 0..max; NaN gives 0.
inline std::uint8_t clamped_code(float x, int max) {
  const float at_least_zero = x > 0.0f ? x : 0.0f;
  return static_cast<std::uint8_t>(at_least_zero < static_cast<float>(max) ? at_least_zero : static_cast<float>(max));
}

/// Nibbles as ggml lays them out: byte j holds the low four bits of code j, and above them those of code j + 16.
inline void pack_nibbles(const BlockCodes& codes, std::uint8_t (&bytes)[16]) {
  for (int j = 0; j < 16; ++j) bytes[j] = static_cast<std::uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}
inline void unpack_nibbles(const std::uint8_t (&bytes)[16], BlockCodes& codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = bytes[j] & 15;
    codes[j + 16] = bytes[j] >> 4;
  }
}
/// Fifth bits: bit j of 32 (little-endian) is bit 4 of code j.
inline void pack_fifth_bits(const BlockCodes& codes, std::uint8_t (&bytes)[4]) {
  for (int j = 0; j < 32; ++j) bytes[j / 8] = static_cast<std::uint8_t>(bytes[j / 8] | (codes[j] >> 4 & 1) << j % 8);
}
inline void unpack_fifth_bits(const std::uint8_t (&bytes)[4], BlockCodes& codes) {
  for (int j = 0; j < 32; ++j) codes[j] = static_cast<std::uint8_t>(codes[j] | (bytes[j / 8] >> j % 8 & 1) << 4);
}

/// A Block supplies
///   kName; kMatmul: its launcher (gpu_linear.h); kZeroCode: the code that stands for 0 (or for the offset); kIntegerBits: 4 or 8, the integer kernel's container
///   kMinCode, kMaxCode; kOffset: what the search for scales may choose
///   struct Stored: the bytes of one block
///   static BlockScale fit(const BlockWeights&);
///   static std::uint8_t round(float w, const BlockScale&);
///   static float value(std::uint8_t code, const BlockScale&);   // reads scale and offset only
///   static Stored pack(const BlockScale&, const BlockCodes&);
///   static BlockScale unpack(const Stored&, BlockCodes&);       // scale and offset only
template <class Block>
class BlockFormat final : public WeightFormat {
 public:
  struct Params {
    LinearKernelChoice kernel;
    void visit(Fields& f) { kernel.visit(f); }
    void check() const { kernel.check(Block::kName); }
  };
  explicit BlockFormat(const Params& params) : params_(params) {}

  std::string label() const override { return Block::kName; }
  std::int64_t tile_columns(std::int64_t) const override { return kBlockColumns; }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, Block::kName);
    if (cols % kBlockColumns != 0)
      throw Error(Block::kName, "blocks of 32 columns do not divide a row of " + std::to_string(cols), "a multiple of 32 columns");
    return {{"blocks", DType::u8, {rows, cols / kBlockColumns * kBlockBytes}}};
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, Block::kName);
    const std::vector<float> importance = column_importance(options.importance, kBlockColumns, Block::kName);
    auto grid = std::make_unique<BlockGrid>();
    for (std::int64_t r = 0; r < tile.shape[0]; ++r) {
      BlockWeights w;
      for (std::int64_t c = 0; c < kBlockColumns; ++c) w[c] = tile(r, c);
      grid->scales.push_back(options.search ? searched(w, importance.data()) : Block::fit(w));
    }
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& scales = dynamic_cast<const BlockGrid&>(grid).scales;
    for (std::int64_t r = 0; r < out.rows; ++r) {
      BlockCodes block_codes;
      for (std::int64_t c = 0; c < kBlockColumns; ++c) block_codes[c] = static_cast<std::uint8_t>(codes(r, c));
      const auto stored = Block::pack(scales[r], block_codes);
      std::memcpy(block_at(out, r, first_column), &stored, sizeof stored);
    }
  }

  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    BlockCodes codes;
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      for (std::int64_t first = 0; first < w.cols; first += kBlockColumns) {
        const BlockScale scale = load(w, first_row + r, first, codes);
        for (std::int64_t c = 0; c < kBlockColumns; ++c) out(r, first + c) = Block::value(codes[c], scale);
      }
    }
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const override {
    if (!ops.device().is_host()) return gpu_linear(label(), w, ops, kLinearKernels, params_.kernel.choice, Block::kMatmul);
    if (!params_.kernel.integer(mode, true, label())) return decode_then_multiply(*this, w, ops);
    return integer_kernel(label(), BlockSource(w), ops);
  }

 private:
  using Stored = typename Block::Stored;
  static constexpr std::int64_t kBlockBytes = sizeof(Stored);

  /// Rounds by the scale itself: a search knows what is stored before it chooses codes.
  static BlockScale exact(const GroupScale& s) {
    return {.scale = s.scale, .offset = s.offset, .inverse = inverse_of(s.scale), .base = s.offset};
  }
  struct Rounding {
    static constexpr float kLowest = Block::kMinCode - Block::kZeroCode, kHighest = Block::kMaxCode - Block::kZeroCode;
    static float level(float w, const GroupScale& s) { return static_cast<float>(Block::round(w, exact(s)) - Block::kZeroCode); }
  };
  static BlockScale searched(const BlockWeights& w, const float* importance) {
    const BlockScale covering = Block::fit(w);
    double covering_error = 0;
    for (std::int64_t c = 0; c < kBlockColumns; ++c) {
      const float error = w[c] - Block::value(Block::round(w[c], covering), covering);
      covering_error += static_cast<double>(importance[c]) * error * error;
    }
    const WeightGroup<Rounding> group{w.data(), importance, kBlockColumns};
    GroupScale found = group.searched(Block::kOffset);
    found = {to_float(to_half(found.scale)), to_float(to_half(found.offset))};
    return group.squared_error(found) < covering_error ? exact(found) : covering;
  }

  struct BlockGrid final : Grid {
    std::vector<BlockScale> scales;  // one per row
    void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const std::uint8_t code = Block::round(values[r], scales[r]);
        codes[r] = code;
        decoded[r] = Block::value(code, scales[r]);
      }
    }
  };

  /// value = scale (code - zero) + offset, seen as scale * code + (offset - scale * zero).
  struct BlockSource final : AffineSource {
    const PackedWeight& w;
    explicit BlockSource(const PackedWeight& weight) : w(weight) {
      rows = w.rows;
      cols = w.cols;
      bits = Block::kIntegerBits;
    }
    void read(std::int64_t row, std::uint8_t* codes, float* scales, float* offsets) const override {
      BlockCodes block_codes;
      for (std::int64_t b = 0; b < cols / kBlockColumns; ++b) {
        const BlockScale scale = load(w, row, b * kBlockColumns, block_codes);
        std::memcpy(codes + b * kBlockColumns, block_codes.data(), kBlockColumns);
        scales[b] = scale.scale;
        offsets[b] = scale.offset - scale.scale * Block::kZeroCode;
      }
    }
  };

  static std::byte* block_at(const PackedWeight& w, std::int64_t row, std::int64_t column) {
    return static_cast<std::byte*>(w.parts[0].data) + row * w.parts[0].strides[0] + column / kBlockColumns * kBlockBytes;
  }
  /// By memcpy: blocks of 18 bytes in a mapped file lie at any address.
  static BlockScale load(const PackedWeight& w, std::int64_t row, std::int64_t column, BlockCodes& codes) {
    Stored stored;
    std::memcpy(&stored, block_at(w, row, column), sizeof stored);
    return Block::unpack(stored, codes);
  }

  Params params_;
};

}  // namespace patchbay
