/// @file float_format.h
/// What the formats that store each weight as one floating-point number share. A plugin supplies its element as a `Codec`.
#pragma once
#include <cstring>
#include <numeric>

#include "patchbay/format_kit.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// How a weight of plain floats can be multiplied, on each backend worst to best.
inline constexpr KernelInfo kFloatKernels[] = {
    {"decode", "cpu", "both", "decodes blocks of rows to floats and multiplies those"},
    {"direct", "cpu", "both", "reads the weight as it is stored and makes floats in registers: no second pass over memory, the same bits"},
    {"naive", "cuda", "both", "a thread per output reads its row of the weight: any shape"},
    {"tiled", "cuda", "both", "tiles of 32 x 32 in shared memory: each number is read side by side with its neighbours, and used 32 times"},
    {"vectorised", "cuda", "both", "16-byte loads, and 4 x 4 outputs per thread: 8 reads of shared memory for 64 products (needs a multiple of 8 columns)"},
    {"cublas", "cuda", "both", "NVIDIA's own, the yardstick: device cuda alone, weights and activations of one 16-bit type", finds_cublas},
    {"tensor_core", "cuda", "both", "16 x 16 by 16 x 8 per instruction, fed by asynchronous copies (needs a multiple of 8 columns)"},
    {"gemv", "cuda", "decode", "a block's threads side by side along four rows: a few tokens cost no more than reading the weight"},
};

/// A Codec supplies kName, kLargest (the largest finite number), the type Element, static Element encode(float) (finite for every
/// finite input), static float decode(Element) and kMatmul, its launcher (gpu_linear.h). Codes are the elements' bit patterns; no
/// weights share anything.
template <class Codec>
class FloatFormat final : public WeightFormat {
  using Element = typename Codec::Element;

 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) { f.kernel("kernel", kernel, kFloatKernels, {"how the weight is multiplied"}); }
    void check() const { require_one_kernel(kernel, kFloatKernels, Codec::kName); }
  };
  explicit FloatFormat(const Params& params) : kernel_(params.kernel) {}

  std::string label() const override { return Codec::kName; }
  /// Any width would do: 32 where it divides keeps a quantizer's tile small.
  std::int64_t tile_columns(std::int64_t cols) const override { return std::gcd(cols, std::int64_t{32}); }

  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, Codec::kName);
    return {{"values", dtype_of<Element>::value, {rows, cols}}};
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions&) const override {
    require_finite(tile, Codec::kName, Codec::kLargest);
    return std::make_unique<FloatGrid>();
  }

  void pack(const Grid&, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    for (std::int64_t r = 0; r < codes.shape[0]; ++r)
      for (std::int64_t c = 0; c < codes.shape[1]; ++c) {
        const std::int32_t code = codes(r, c);
        std::memcpy(element_at(out, r, first_column + c), &code, sizeof(Element));  // little-endian: the low bytes come first
      }
  }

  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      const std::byte* row = element_at(w, first_row + r, 0);
      for (std::int64_t c = 0; c < w.cols; ++c) {
        Element element;
        std::memcpy(&element, row + c * static_cast<std::int64_t>(sizeof element), sizeof element);  // a mapped file aligns to bytes
        out(r, c) = Codec::decode(element);
      }
    }
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode) const override {
    if (!ops.device().is_host()) return gpu_linear(label(), w, ops, kFloatKernels, kernel_, Codec::kMatmul, true);
    if (host_kernel(kernel_, kFloatKernels, label()).name == "decode") return decode_then_multiply(*this, w, ops);
    return multiply_as_stored(label(), w, w.parts[0], ops);
  }

 private:
  struct FloatGrid final : Grid {
    void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const Element element = Codec::encode(values[r]);
        codes[r] = 0;
        std::memcpy(&codes[r], &element, sizeof element);
        decoded[r] = Codec::decode(element);
      }
    }
  };

  static std::byte* element_at(const PackedWeight& w, std::int64_t row, std::int64_t column) {
    return static_cast<std::byte*>(w.parts[0].data) +
           (row * w.parts[0].strides[0] + column) * static_cast<std::int64_t>(sizeof(Element));
  }

  KernelChoice kernel_;
};

}  // namespace patchbay
