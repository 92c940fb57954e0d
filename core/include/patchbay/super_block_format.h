/// @file super_block_format.h
/// What the K-quants of GGUF files share: 256 columns of a row make a super-block, cut into groups of 16 or 32 columns. Each group
/// has a scale of its own (and perhaps a minimum), kept as a small integer times a number that the whole super-block shares.
/// A plugin supplies the bytes and its formulas as a `Block`; SuperBlockFormat<Block> is then the whole weight format.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/scale_search.h"
#include "patchbay/weight_format.h"

namespace patchbay {

inline constexpr std::int64_t kSuperColumns = 256;
using SuperCodes = std::array<std::uint8_t, kSuperColumns>;

/// Reads kBits of each code from `bytes` into the code's bits from `shift` up. As ggml lays them out: kRun bytes hold 8 / kBits runs of
/// kRun columns, the first run in the lowest bits.
template <int kBits, int kRun>
void unpack_bits(const std::uint8_t* bytes, int shift, SuperCodes& codes) {
  constexpr int kParts = 8 / kBits, kChunks = kSuperColumns / (kRun * kParts);
  for (int chunk = 0; chunk < kChunks; ++chunk)
    for (int part = 0; part < kParts; ++part)
      for (int i = 0; i < kRun; ++i) {
        const int bits = bytes[chunk * kRun + i] >> part * kBits & ((1 << kBits) - 1);
        std::uint8_t& code = codes[(chunk * kParts + part) * kRun + i];
        code = static_cast<std::uint8_t>(code | bits << shift);
      }
}
template <int kBits, int kRun>
void pack_bits(const SuperCodes& codes, int shift, std::uint8_t* bytes) {
  constexpr int kParts = 8 / kBits, kPeriod = kRun * kParts;
  for (int c = 0; c < kSuperColumns; ++c) {
    std::uint8_t& byte = bytes[c / kPeriod * kRun + c % kRun];
    byte = static_cast<std::uint8_t>(byte | (codes[c] >> shift & ((1 << kBits) - 1)) << c % kPeriod / kRun * kBits);
  }
}

/// The smallest fp16 number that is at least `value`, so that multiples of it reach what they must.
inline float half_at_least(float value, const char* format) {
  const float nearest = rounded_to_half(value, format);
  if (nearest >= value) return nearest;
  return rounded_to_half(to_float(Half{static_cast<std::uint16_t>(to_half(nearest).bits + 1)}), format);
}
/// How many steps cover `value`: rounded away from zero, so that no weight falls outside its group's range. At most `most`.
inline int steps_covering(float value, float step, int most) {
  if (step == 0.0f) return 0;
  const int count = static_cast<int>(std::min(std::ceil(std::fabs(value) / step), static_cast<float>(most)));
  return value < 0.0f ? -count : count;
}

/// The range of `count` weights, 0 always in it: a group's minimum can only be 0 or less.
struct WeightRange { float low = 0, high = 0; };
inline WeightRange range_of(const float* w, std::int64_t count) {
  const auto [low, high] = std::minmax_element(w, w + count);
  return {std::min(*low, 0.0f), std::max(*high, 0.0f)};
}
/// The first of `count` weights of largest magnitude, with its sign.
inline float extreme_of(const float* w, std::int64_t count) {
  return *std::max_element(w, w + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

/// Scales and minima of a super-block as whole multiples of two fp16 numbers. A format without minima leaves them 0.
template <std::size_t kGroups>
struct Steps {
  float scale_step = 0, minimum_step = 0;
  std::array<int, kGroups> scales{}, minima{};

  GroupScale group_of(int scale, int minimum) const {
    return {scale_step * static_cast<float>(scale), -(minimum_step * static_cast<float>(minimum))};
  }
  GroupScale group(std::size_t g) const { return group_of(scales[g], minima[g]); }
};
/// Fits value = scale_step * scales[g] * code - minimum_step * minima[g] with codes 0..max_code: the minima first, rounded down; then
/// scales that reach each group's maximum from there. `most`: the largest integer of either.
template <std::size_t kGroups>
Steps<kGroups> fit_steps_and_minima(const float* w, int max_code, int most, const char* format) {
  constexpr std::int64_t kColumns = kSuperColumns / static_cast<std::int64_t>(kGroups);
  Steps<kGroups> fitted;
  std::array<WeightRange, kGroups> ranges;
  std::array<float, kGroups> scales;
  float lowest = 0.0f, largest = 0.0f;
  for (std::size_t g = 0; g < kGroups; ++g) {
    ranges[g] = range_of(w + static_cast<std::int64_t>(g) * kColumns, kColumns);
    lowest = std::min(lowest, ranges[g].low);
  }
  fitted.minimum_step = half_at_least(-lowest / static_cast<float>(most), format);
  for (std::size_t g = 0; g < kGroups; ++g) {
    fitted.minima[g] = steps_covering(-ranges[g].low, fitted.minimum_step, most);
    const float minimum = fitted.minimum_step * static_cast<float>(fitted.minima[g]);
    scales[g] = (ranges[g].high + minimum) / static_cast<float>(max_code);
    largest = std::max(largest, scales[g]);
  }
  fitted.scale_step = half_at_least(largest / static_cast<float>(most), format);
  for (std::size_t g = 0; g < kGroups; ++g) fitted.scales[g] = steps_covering(scales[g], fitted.scale_step, most);
  return fitted;
}

/// Fits value = scale_step * scales[g] * level: the weight of largest magnitude in each group gets `lowest_level`, whatever its sign.
template <std::size_t kGroups>
Steps<kGroups> fit_signed_steps(const float* w, int lowest_level, int most, const char* format) {
  constexpr std::int64_t kColumns = kSuperColumns / static_cast<std::int64_t>(kGroups);
  Steps<kGroups> fitted;
  std::array<float, kGroups> scales;
  float largest = 0.0f;
  for (std::size_t g = 0; g < kGroups; ++g) {
    scales[g] = extreme_of(w + static_cast<std::int64_t>(g) * kColumns, kColumns) / static_cast<float>(lowest_level);
    largest = std::max(largest, std::fabs(scales[g]));
  }
  fitted.scale_step = half_at_least(largest / static_cast<float>(most), format);
  for (std::size_t g = 0; g < kGroups; ++g) fitted.scales[g] = steps_covering(scales[g], fitted.scale_step, most);
  return fitted;
}

/// The code whose value is nearest to w, among 0..max_code with `zero` for the offset.
inline std::uint8_t nearest_code(float w, const GroupScale& group, int zero, int max_code) {
  const float inverse = 1.0f / group.scale;
  const float exact = std::isfinite(inverse) ? (w - group.offset) * inverse + static_cast<float>(zero) : static_cast<float>(zero);
  const float at_least_zero = exact > 0.0f ? exact : 0.0f;  // NaN gives 0
  return static_cast<std::uint8_t>(std::min(at_least_zero, static_cast<float>(max_code)) + 0.5f);
}

/// A Block supplies
///   kName; kMatmul: its launcher (gpu_linear.h); kGroupColumns: 16 or 32; kZeroCode: the code that stands for the offset; kIntegerBits: 4 or 8, the integer kernel's container
///   struct Stored: the bytes of a super-block
///   using Groups = std::array<GroupScale, kSuperColumns / kGroupColumns>;
///   static Stored fit(const float* w);                     // 256 weights; scales as they will be stored, no codes yet
///   static Stored search(const float* w, const float* importance);  // the same, scales of least squared error; where there are such
///   static Groups groups(const Stored&);
///   static std::uint8_t round(float w, const GroupScale&);
///   static float value(std::uint8_t code, const GroupScale&);
///   static void store_codes(const SuperCodes&, Stored&);   // into a block without codes
///   static void load_codes(const Stored&, SuperCodes&);    // into zeros
template <class Block>
class SuperBlockFormat final : public WeightFormat {
  /// The integer kernel takes one scale per 32 columns.
  static constexpr bool kHasIntegerKernel = Block::kGroupColumns == 32;
  static constexpr std::span<const KernelInfo> kKernels =
      kHasIntegerKernel ? std::span<const KernelInfo>(kLinearKernels) : std::span<const KernelInfo>(kDecodeKernels);

 public:
  struct Params {
    LinearKernelChoice kernel;
    void visit(Fields& f) {
      f.kernel("kernel", kernel.choice, kKernels, {"how the packed weight is multiplied"});
    }
    void check() const { require_one_kernel(kernel.choice, kKernels, Block::kName); }
  };
  explicit SuperBlockFormat(const Params& params) : params_(params) {}

  std::string label() const override { return Block::kName; }
  std::int64_t tile_columns(std::int64_t) const override { return kSuperColumns; }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, Block::kName);
    if (cols % kSuperColumns != 0)
      throw Error(Block::kName, "super-blocks of 256 columns do not divide a row of " + std::to_string(cols), "a multiple of 256 columns",
                  "use a format of blocks of 32 for this tensor (a rule under weights.rules)");
    return {{"blocks", DType::u8, {rows, cols / kSuperColumns * kBlockBytes}}};
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, Block::kName);
    const std::vector<float> importance = column_importance(options.importance, kSuperColumns, Block::kName);
    auto grid = std::make_unique<SuperGrid>();
    std::array<float, kSuperColumns> w;
    for (std::int64_t r = 0; r < tile.shape[0]; ++r) {
      for (std::int64_t c = 0; c < kSuperColumns; ++c) w[c] = tile(r, c);
      grid->stored.push_back(options.search ? searched(w.data(), importance.data()) : Block::fit(w.data()));
      grid->groups.push_back(Block::groups(grid->stored.back()));
    }
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& fitted = dynamic_cast<const SuperGrid&>(grid).stored;
    SuperCodes block_codes;
    for (std::int64_t r = 0; r < out.rows; ++r) {
      for (std::int64_t c = 0; c < kSuperColumns; ++c) block_codes[c] = static_cast<std::uint8_t>(codes(r, c));
      Stored stored = fitted[r];
      Block::store_codes(block_codes, stored);
      std::memcpy(block_at(out, r, first_column), &stored, sizeof stored);
    }
  }

  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    std::array<float, kSuperColumns> values;
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      for (std::int64_t first = 0; first < w.cols; first += kSuperColumns) {
        SuperCodes codes{};
        const auto groups = load(w, first_row + r, first, codes);
        for (std::size_t g = 0; g < groups.size(); ++g)
          for (std::int64_t c = g * Block::kGroupColumns; c < static_cast<std::int64_t>(g + 1) * Block::kGroupColumns; ++c)
            values[c] = Block::value(codes[c], groups[g]);
        for (std::int64_t c = 0; c < kSuperColumns; ++c) out(r, first + c) = values[c];
      }
    }
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const override {
    if (!ops.device().is_host()) return gpu_linear(label(), w, ops, kKernels, params_.kernel.choice, Block::kMatmul);
    host_kernel(params_.kernel.choice, kKernels, label());
    if constexpr (kHasIntegerKernel) {
      if (params_.kernel.integer(mode, true, label())) return integer_kernel(label(), SuperSource(w), ops);
    }
    return decode_then_multiply(*this, w, ops);
  }

 private:
  using Stored = typename Block::Stored;
  using Groups = typename Block::Groups;
  static constexpr std::int64_t kBlockBytes = sizeof(Stored);

  struct SuperGrid final : Grid {
    std::vector<Stored> stored;  // one per row, without codes
    std::vector<Groups> groups;
    void round(std::int64_t column, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const GroupScale& group = groups[r][column / Block::kGroupColumns];
        const std::uint8_t code = Block::round(values[r], group);
        codes[r] = code;
        decoded[r] = Block::value(code, group);
      }
    }
  };

  /// value = scale (code - zero) + offset, seen as scale * code + (offset - scale * zero).
  struct SuperSource final : AffineSource {
    const PackedWeight& w;
    explicit SuperSource(const PackedWeight& weight) : w(weight) {
      rows = w.rows;
      cols = w.cols;
      bits = Block::kIntegerBits;
    }
    void read(std::int64_t row, std::uint8_t* codes, float* scales, float* offsets) const override {
      for (std::int64_t first = 0; first < cols; first += kSuperColumns) {
        SuperCodes block_codes{};
        for (const GroupScale& group : load(w, row, first, block_codes)) {
          *scales++ = group.scale;
          *offsets++ = group.offset - group.scale * Block::kZeroCode;
        }
        std::memcpy(codes + first, block_codes.data(), kSuperColumns);
      }
    }
  };

  static Stored searched(const float* w, const float* importance) {
    if constexpr (requires { Block::search(w, importance); }) return Block::search(w, importance);
    return Block::fit(w);
  }

  static std::byte* block_at(const PackedWeight& w, std::int64_t row, std::int64_t column) {
    return static_cast<std::byte*>(w.parts[0].data) + row * w.parts[0].strides[0] + column / kSuperColumns * kBlockBytes;
  }
  /// By memcpy: blocks of 210 bytes in a mapped file lie at any address.
  static Groups load(const PackedWeight& w, std::int64_t row, std::int64_t column, SuperCodes& codes) {
    Stored stored;
    std::memcpy(&stored, block_at(w, row, column), sizeof stored);
    Block::load_codes(stored, codes);
    return Block::groups(stored);
  }

  Params params_;
};

}  // namespace patchbay
