// Weights with an error of a stated size: the yardstick beside which every other format's error can be laid. Formulas (E1)...(E3): README.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"
#include "patchbay/weight_seed.h"

namespace patchbay {
namespace {

constexpr const char* kName = "noise";

/// How a weight is stored: its bits are its code.
struct Storage {
  bool wide = false;  // fp32, else fp16

  DType type() const { return wide ? DType::f32 : DType::f16; }
  float largest() const { return wide ? std::numeric_limits<float>::max() : 65504.0f; }
  /// (E3)
  std::int32_t code_of(float value) const {
    const float held = std::clamp(value, -largest(), largest());
    return wide ? std::bit_cast<std::int32_t>(held) : to_half(held).bits;
  }
  float value_of(std::int32_t code) const { return wide ? std::bit_cast<float>(code) : to_float(Half{static_cast<std::uint16_t>(code)}); }
};

class Noise final : public WeightFormat {
 public:
  struct Params {
    double size = 0;
    std::int64_t seed = 0;
    std::string storage = "fp16";
    void visit(Fields& f) {
      f.real("size", size, 0.0, 10.0, {"root-mean-square of the error, over that of the weights; 0: they are only stored"});
      f.integer("seed", seed, 0, 1 << 30, {"of the error: another one, another error of the same size"});
      f.choice("storage", storage, {"fp16", "fp32"}, {"in which number format weight and error are stored"});
    }
  };
  explicit Noise(const Params& params) : params_(params), storage_{params.storage == "fp32"} {}

  std::string label() const override {
    char size[32];
    std::snprintf(size, sizeof size, "%g", params_.size);
    return std::string(kName) + "/" + size + "/" + params_.storage;
  }
  std::int64_t tile_columns(std::int64_t cols) const override { return std::gcd(cols, std::int64_t{32}); }
  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, kName);
    return {{"values", storage_.type(), {rows, cols}}};
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions&) const override {
    require_finite(tile, kName, storage_.largest());
    double squares = 0;
    for (std::int64_t r = 0; r < tile.shape[0]; ++r)
      for (std::int64_t c = 0; c < tile.shape[1]; ++c) squares += static_cast<double>(tile(r, c)) * tile(r, c);
    const double deviation = params_.size * std::sqrt(squares / static_cast<double>(tile.size()));  // (E1)
    auto grid = std::make_unique<NoiseGrid>(storage_);
    if (deviation == 0) return grid;
    std::mt19937_64 random(seed_of(tile, static_cast<std::uint64_t>(params_.seed)));
    grid->rows = tile.shape[0];
    for (std::int64_t i = 0; i < tile.size(); ++i) grid->errors.push_back(static_cast<float>(deviation * normal_number(random)));  // (E2)
    return grid;
  }

  void pack(const Grid&, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    for (std::int64_t r = 0; r < codes.shape[0]; ++r)
      for (std::int64_t c = 0; c < codes.shape[1]; ++c) {
        const std::int32_t code = codes(r, c);  // little-endian: the low bytes come first
        std::memcpy(number_at(out, r, first_column + c), &code, static_cast<std::size_t>(bytes_of(storage_.type())));
      }
  }
  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    for (std::int64_t r = 0; r < out.shape[0]; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) {
        std::int32_t code = 0;
        std::memcpy(&code, number_at(w, first_row + r, c), static_cast<std::size_t>(bytes_of(storage_.type())));
        out(r, c) = storage_.value_of(code);
      }
  }

  /// Plain numbers: every backend multiplies them as they lie.
  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode) const override {
    const PackedWeight there = ops.device().is_host() ? w : upload(w, ops.device());
    return multiply_as_stored(label(), there, there.parts[0], ops);
  }

 private:
  struct NoiseGrid final : Grid {
    Storage storage;
    std::int64_t rows = 0;
    std::vector<float> errors;  // column after column; empty: none
    explicit NoiseGrid(Storage s) : storage(s) {}
    void round(std::int64_t column, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        codes[r] = storage.code_of(errors.empty() ? values[r] : values[r] + errors[column * rows + r]);
        decoded[r] = storage.value_of(codes[r]);
      }
    }
  };

  std::byte* number_at(const PackedWeight& w, std::int64_t row, std::int64_t column) const {
    return static_cast<std::byte*>(w.parts[0].data) + (row * w.parts[0].strides[0] + column) * bytes_of(storage_.type());
  }

  Params params_;
  Storage storage_;
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, Noise, "noise", "weights with a normally distributed error of a stated size: a yardstick for other formats", "")

}  // namespace patchbay
