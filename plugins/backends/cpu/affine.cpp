#include "affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "patchbay/half.h"

namespace patchbay::cpu {
namespace {

/// One row as the source gives it.
struct Row {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, offsets;
  explicit Row(const AffineSource& source)
      : codes(source.cols), scales(source.cols / kBlock), offsets(source.cols / kBlock) {}
  void read(const AffineSource& source, std::int64_t row) { source.read(row, codes.data(), scales.data(), offsets.data()); }
};

bool fits_half(float value) { return to_float(to_half(value)) == value; }

/// What all rows have in common.
struct Traits {
  int max_code = 0;
  bool half = true;
  bool any_scale = false;  ///< some block has a scale that is not 0, so `zero` is known
  int zero = kNoZero;      ///< kNoZero with any_scale: no constant serves

  void see(const Row& row) {
    std::uint8_t largest = 0;  // a byte, so that the compiler compares 16 at a time
    for (const std::uint8_t code : row.codes) largest = std::max(largest, code);
    max_code = std::max<int>(max_code, largest);
    for (std::size_t block = 0; block < row.scales.size(); ++block) {
      const float scale = row.scales[block], offset = row.offsets[block];
      half = half && fits_half(scale) && fits_half(offset);
      if (!any_scale && scale != 0.0f) {
        any_scale = true;
        const float ratio = std::nearbyint(-offset / scale);
        zero = ratio >= 0.0f && ratio <= 255.0f ? static_cast<int>(ratio) : kNoZero;
      }
      if (!implied(scale, offset)) { any_scale = true; zero = kNoZero; }
    }
  }
  void merge(const Traits& other) {
    max_code = std::max(max_code, other.max_code);
    half = half && other.half;
    if (!other.any_scale) return;
    zero = !any_scale || zero == other.zero ? other.zero : kNoZero;
    any_scale = true;
  }

 private:
  bool implied(float scale, float offset) const {
    if (!any_scale) return offset == 0.0f;
    return zero != kNoZero && -static_cast<float>(zero) * scale == offset;
  }
};

Traits scan(const AffineSource& source, Device& device) {
  std::vector<Traits> found(device.concurrency());
  device.parallel_for(source.rows, 64, [&](std::int64_t begin, std::int64_t end, int worker) {
    Row row(source);
    for (std::int64_t r = begin; r < end; ++r) {
      row.read(source, r);
      found[worker].see(row);
    }
  });
  Traits all;
  for (const Traits& traits : found) all.merge(traits);
  return all;
}

AffineLayout lay_out(const AffineSource& source, const Traits& traits, int lanes, bool compact) {
  AffineLayout layout;
  layout.rows = source.rows;
  layout.cols = source.cols;
  layout.blocks = source.cols / kBlock;
  layout.tiles = (source.rows + lanes - 1) / lanes;
  layout.lanes = lanes;
  layout.bits = source.bits;
  layout.max_code = traits.max_code;
  layout.zero = compact ? traits.zero : kNoZero;
  layout.half = compact && traits.half;
  layout.block_code_bytes = kBlock * lanes * source.bits / 8;
  layout.block_scale_bytes = lanes * (layout.half ? 2 : 4);
  layout.scales_at = layout.blocks * layout.block_code_bytes;
  layout.offsets_at = layout.scales_at + layout.blocks * layout.block_scale_bytes;
  const std::int64_t bytes = layout.offsets_at + (layout.zero == kNoZero ? layout.blocks * layout.block_scale_bytes : 0);
  layout.tile_bytes = (bytes + 63) / 64 * 64;
  return layout;
}

void store_scale(std::uint8_t* at, std::int64_t index, float value, bool half) {
  const Half narrow = to_half(value);
  half ? std::memcpy(at + 2 * index, &narrow, 2) : std::memcpy(at + 4 * index, &value, 4);
}

/// 32 codes of a row.
void pack_block(const std::uint8_t* codes, const AffineLayout& layout, std::uint8_t* to, int lane) {
  const int stored_steps = layout.bits;  // 8 steps of 4 columns; in 4 bits two share their bytes
  for (int step = 0; step < stored_steps; ++step) {
    const std::uint8_t* from = codes + step * 4;
    std::uint32_t four, high;
    std::memcpy(&four, from, 4);
    if (layout.bits == 4) {
      std::memcpy(&high, from + 16, 4);
      four |= high << 4;  // each byte holds less than 16
    }
    std::memcpy(to + (step * layout.lanes + lane) * 4, &four, 4);
  }
}

void pack_row(const Row& row, const AffineLayout& layout, std::uint8_t* tile, int lane) {
  for (std::int64_t block = 0; block < layout.blocks; ++block) {
    pack_block(row.codes.data() + block * kBlock, layout, tile + block * layout.block_code_bytes, lane);
    store_scale(tile + layout.scales_at, block * layout.lanes + lane, row.scales[block], layout.half);
    if (layout.zero == kNoZero) {
      store_scale(tile + layout.offsets_at, block * layout.lanes + lane, row.offsets[block], layout.half);
    }
  }
}

}  // namespace

std::unique_ptr<CpuAffineWeight> pack_affine(const AffineSource& source, int lanes, bool compact, Device& device) {
  if (source.cols % kBlock != 0 || (source.bits != 4 && source.bits != 8)) {
    throw Error("backend cpu: prepare_affine",
                std::to_string(source.cols) + " columns of " + std::to_string(source.bits) + " bits",
                "columns in multiples of 32, codes of 4 or 8 bits");
  }
  const Traits traits = scan(source, device);
  if (traits.max_code >= 1 << source.bits) {
    throw Error("backend cpu: prepare_affine",
                "code " + std::to_string(traits.max_code) + " in " + std::to_string(source.bits) + " bits");
  }
  auto weight = std::make_unique<CpuAffineWeight>();
  weight->layout = lay_out(source, traits, lanes, compact);
  weight->data = device.allocate(weight->layout.tiles * weight->layout.tile_bytes);
  auto* data = reinterpret_cast<std::uint8_t*>(weight->data.data());
  device.parallel_for(weight->layout.tiles, std::max(1, 64 / lanes), [&](std::int64_t begin, std::int64_t end, int) {
    Row row(source);
    for (std::int64_t r = begin * lanes; r < std::min(end * lanes, source.rows); ++r) {
      row.read(source, r);
      pack_row(row, weight->layout, data + r / lanes * weight->layout.tile_bytes, static_cast<int>(r % lanes));
    }
  });
  return weight;
}

std::unique_ptr<CpuAffineWeight> pack_int8(View<const std::int8_t, 2> codes, View<const float, 1> scales, int lanes, Device& device) {
  constexpr std::int64_t kMostColumns = 65536;  // 255 * 127 of each stay below 2^31
  if (codes.shape[1] > kMostColumns) {
    throw Error("backend cpu: prepare_int8", std::to_string(codes.shape[1]) + " columns, whose sum passes 32 bits", "at most 65536",
                "take another format for this tensor");
  }
  auto weight = std::make_unique<CpuAffineWeight>();
  AffineLayout& layout = weight->layout;
  layout.rows = codes.shape[0];
  layout.cols = codes.shape[1];
  layout.blocks = (layout.cols + kBlock - 1) / kBlock;
  layout.tiles = (layout.rows + lanes - 1) / lanes;
  layout.lanes = lanes;
  layout.zero = kInt8Zero;
  layout.row_scales = true;
  layout.block_code_bytes = kBlock * lanes;
  layout.scales_at = layout.blocks * layout.block_code_bytes;
  layout.tile_bytes = (layout.scales_at + lanes * std::int64_t{sizeof(float)} + 63) / 64 * 64;
  weight->data = device.allocate(layout.tiles * layout.tile_bytes);
  auto* data = reinterpret_cast<std::uint8_t*>(weight->data.data());
  device.parallel_for(layout.tiles, std::max(1, 64 / lanes), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::uint8_t> row(layout.blocks * kBlock, kInt8Zero);
    for (std::int64_t r = begin * lanes; r < std::min(end * lanes, layout.rows); ++r) {
      std::uint8_t* const tile = data + r / lanes * layout.tile_bytes;
      const int lane = static_cast<int>(r % lanes);
      for (std::int64_t c = 0; c < layout.cols; ++c) row[c] = static_cast<std::uint8_t>(codes(r, c) + kInt8Zero);
      for (std::int64_t block = 0; block < layout.blocks; ++block)
        pack_block(row.data() + block * kBlock, layout, tile + block * layout.block_code_bytes, lane);
      store_scale(tile + layout.scales_at, lane, scales[r], false);
    }
  });
  return weight;
}

}  // namespace patchbay::cpu
