/// @file level_format.h
/// What formats share whose codes of 4 bits name one of sixteen uneven levels between -1 and 1. A block of neighbouring weights of a row
/// shares a scale, its largest magnitude. A plugin supplies the levels; LevelFormat<Levels> is then the whole weight format.
/// Formulas (N1)...(N6) and the bytes: plugins/formats/nf4/README.md.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "patchbay/double_quantisation.h"
#include "patchbay/format_kit.h"
#include "patchbay/gpu/level_matmul.h"
#include "patchbay/weight_format.h"

namespace patchbay {

using LevelLauncher = gpu::Launcher<void(const LevelMatmulArgs&, gpu::Stream)>;

/// The code of the nearest level, whatever the order of the codes.
class NearestLevel {
 public:
  explicit NearestLevel(const std::array<float, 16>& levels) {
    for (std::size_t i = 0; i < 16; ++i) codes_[i] = static_cast<std::uint8_t>(i);
    std::sort(codes_.begin(), codes_.end(), [&](int a, int b) { return levels[a] < levels[b] || (levels[a] == levels[b] && a > b); });
    for (std::size_t i = 0; i < 15; ++i) {
      const float low = levels[codes_[i]], high = levels[codes_[i + 1]];
      middles_[i] = low < high ? 0.5f * (low + high) : middles_[i - 1];  // 0 may be there twice: its second code, -0, is never taken
    }
  }
  /// The lower of two. Without branches: as many levels as middles that x is above.
  std::uint8_t code(float x) const {
    int index = 0;
    for (const float middle : middles_) index += x > middle ? 1 : 0;
    return codes_[index];
  }

 private:
  std::array<std::uint8_t, 16> codes_;
  std::array<float, 15> middles_;
};

/// Levels supplies kName; kLevels: std::array<float, 16>, in the order of the codes; kMatmul: its launcher, a LevelLauncher.
template <class Levels>
class LevelFormat final : public WeightFormat {
 public:
  struct Params {
    int block_size = 64;
    bool double_quantisation = false;
    KernelChoice kernel;
    void visit(Fields& f) {
      f.integer("block_size", block_size, 16, 4096, {"weights of a row that share one scale; a multiple of 16"});
      f.boolean("double_quantisation", double_quantisation, {"scales in 8 bits, with a second scale for 256 of them, instead of 32"});
      f.kernel("kernel", kernel, kDecodeKernels, {"how the packed weight is multiplied"});
    }
    void check() const {
      if (block_size % 16 != 0)
        throw Error(std::string(Levels::kName) + ": block_size", "blocks of " + std::to_string(block_size) + " weights", "a multiple of 16");
      require_one_kernel(kernel, kDecodeKernels, Levels::kName);
    }
  };
  explicit LevelFormat(const Params& params) : params_(params), nearest_(Levels::kLevels) {}

  std::string label() const override {
    return std::string(Levels::kName) + "/g" + std::to_string(params_.block_size) + (params_.double_quantisation ? "/double" : "");
  }
  std::int64_t tile_columns(std::int64_t) const override { return params_.block_size; }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, Levels::kName);
    if (cols % params_.block_size != 0)
      throw Error(std::string(Levels::kName) + ": block_size",
                  "blocks of " + std::to_string(params_.block_size) + " do not divide a row of " + std::to_string(cols), "a multiple of 16 that does");
    const std::int64_t blocks = cols / params_.block_size;
    const PartSpec codes{"codes", DType::u8, {rows, cols / 2}};
    if (!params_.double_quantisation) return {codes, {"scales", DType::f32, {rows, blocks}}};
    return {codes, {"scales", DType::u8, {rows, blocks}}, {"second_scales", DType::f32, {blocks, NestedScales::second_count(rows)}}};
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions&) const override {
    require_finite(tile, Levels::kName);
    auto grid = std::make_unique<LevelGrid>(nearest_);
    for (std::int64_t r = 0; r < tile.shape[0]; ++r) {
      float largest = 0;  // (N2)
      for (std::int64_t c = 0; c < tile.shape[1]; ++c) largest = std::max(largest, std::fabs(tile(r, c)));
      grid->scales.push_back(largest);
    }
    if (!params_.double_quantisation) return grid;
    grid->nested = NestedScales::of(grid->scales);
    for (std::size_t r = 0; r < grid->scales.size(); ++r) grid->scales[r] = grid->nested.value(static_cast<std::int64_t>(r));
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& fitted = dynamic_cast<const LevelGrid&>(grid);
    const std::int64_t block = first_column / params_.block_size;
    for (std::int64_t r = 0; r < out.rows; ++r) {
      std::uint8_t* const bytes = codes_at(out, r, first_column);
      for (std::int64_t c = 0; c < codes.shape[1]; c += 2) bytes[c / 2] = static_cast<std::uint8_t>(codes(r, c) << 4 | codes(r, c + 1));
      if (params_.double_quantisation) out.parts[1].as<std::uint8_t, 2>()(r, block) = fitted.nested.codes[r];
      else out.parts[1].as<float, 2>()(r, block) = fitted.scales[r];
    }
    if (!params_.double_quantisation) return;
    const auto second = out.parts[2].as<float, 2>();
    for (std::int64_t i = 0; i < second.shape[1]; ++i) second(block, i) = fitted.nested.second[i];
  }

  /// By a table of the block's sixteen values: a weight costs one look into it.
  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      for (std::int64_t first = 0; first < w.cols; first += params_.block_size) {
        std::array<float, 16> values;
        const float scale = scale_of(w, first_row + r, first / params_.block_size);
        for (int code = 0; code < 16; ++code) values[code] = scale * Levels::kLevels[code];  // (N1)
        const std::uint8_t* const bytes = codes_at(w, first_row + r, first);
        float* const to = &out(r, first);
        for (std::int64_t c = 0; c < params_.block_size; c += 2) {
          to[c * out.strides[1]] = values[bytes[c / 2] >> 4];
          to[(c + 1) * out.strides[1]] = values[bytes[c / 2] & 15];
        }
      }
    }
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode) const override {
    if (!ops.device().is_host()) return prepare_on_gpu(w, ops);
    host_kernel(params_.kernel, kDecodeKernels, label());
    return decode_then_multiply(*this, w, ops);
  }

 private:
  struct LevelGrid final : Grid {
    const NearestLevel& nearest;
    std::vector<float> scales;  // one per row, as stored
    NestedScales nested;        // in which they are stored, where they are
    explicit LevelGrid(const NearestLevel& n) : nearest(n) {}
    /// (N3)
    void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const std::uint8_t code = nearest.code(scales[r] != 0.0f ? values[r] / scales[r] : 0.0f);
        codes[r] = code;
        decoded[r] = scales[r] * Levels::kLevels[code];
      }
    }
  };

  std::unique_ptr<LinearKernel> prepare_on_gpu(const PackedWeight& w, Ops& ops) const {
    std::vector<float> tables(Levels::kLevels.begin(), Levels::kLevels.end());
    tables.insert(tables.end(), dynamic_map().begin(), dynamic_map().end());
    const auto count = static_cast<std::int64_t>(tables.size());
    const auto there = std::make_shared<const Buffer>(ops.device().allocate(count * bytes_of(DType::f32)));
    ops.device().copy(View<float, 1>(tables.data(), {count}), there->tensor(DType::f32, {count}));
    const auto multiply = gpu::pick(Levels::kMatmul, gpu::world_of(ops.device()));
    return gpu_linear(label(), w, ops, kDecodeKernels, params_.kernel,
                      [multiply, there, block_size = params_.block_size, nested = params_.double_quantisation](const MatmulArgs& args, gpu::Stream stream) {
                        multiply({args, reinterpret_cast<const float*>(there->data()), block_size, nested}, stream);
                      });
  }

  static std::uint8_t* codes_at(const PackedWeight& w, std::int64_t row, std::int64_t column) {
    return &w.parts[0].as<std::uint8_t, 2>()(row, column / 2);
  }
  float scale_of(const PackedWeight& w, std::int64_t row, std::int64_t block) const {
    if (!params_.double_quantisation) return w.parts[1].as<float, 2>()(row, block);
    return NestedScales::value_of(w.parts[1].as<std::uint8_t, 2>()(row, block), &w.parts[2].as<float, 2>()(block, 0), row, w.rows);
  }

  Params params_;
  NearestLevel nearest_;
};

}  // namespace patchbay
