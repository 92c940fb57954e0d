// Integer codes of 2 to 8 bits; each group of consecutive weights in a row shares a scale and, when asymmetric, a zero point.
// Formulas (I1)...(I7): README.md.
#include <algorithm>
#include <vector>

#include "bit_stream.h"
#include "column_order.h"
#include "group_scale.h"
#include "int_grouped_gpu.h"
#include "patchbay/format_kit.h"
#include "patchbay/half.h"
#include "patchbay/integer_codes.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, int_grouped_matmul, (const IntGroupedArgs&, gpu::Stream))  // int_grouped.cu

namespace {

constexpr const char* kName = "int_grouped";
constexpr std::int64_t kIntegerBlock = 32;  // columns for which the integer kernel takes one scale

struct GroupGrid final : Grid {
  int max_code = 0;
  std::vector<Group> groups;  // one per row

  void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
    for (std::int64_t r = 0; r < values.shape[0]; ++r) {
      codes[r] = code_of(values[r], groups[r], max_code);
      decoded[r] = value_of(codes[r], groups[r]);
    }
  }
};

class IntGrouped final : public WeightFormat, public HoldsIntegerCodes {
 public:
  struct Params {
    int bits = 4;
    bool symmetric = false;
    int group_size = 64;
    bool column_order = false;
    LinearKernelChoice kernel;

    void visit(Fields& f) {
      f.integer("bits", bits, 2, 8, {"width of one code", "bit"});
      f.boolean("symmetric", symmetric, {"the range is centred on 0, and no zero points are stored"});
      f.integer("group_size", group_size, -1, 1 << 20, {"weights of a row that share one scale; -1: the whole row"});
      f.boolean("column_order", column_order, {"keeps an order of the columns, for a quantizer that chooses one (gptq's desc_act): 16 bits per column"});
      kernel.visit(f);
    }
    void check() const {
      if (group_size == 0) throw Error("int_grouped: group_size", "a group of 0 weights", "-1 (the whole row), or at least 1");
      kernel.check(kName);
    }
  };
  explicit IntGrouped(const Params& params) : params_(params), stream_{params.bits} {}

  std::string label() const override {
    const std::string bits = std::to_string(params_.bits), size = std::to_string(params_.group_size);
    const std::string group = params_.group_size < 0 ? std::string("row") : std::string("g") + size;
    return std::string(kName) + "/b" + bits + "/" + group + (params_.symmetric ? "/sym" : "") + (params_.column_order ? "/ordered" : "");
  }
  std::int64_t tile_columns(std::int64_t cols) const override { return params_.group_size < 0 ? cols : params_.group_size; }

  /// codes: each group begins at a byte. zeros: stored by group, not by row, so that tiles never share a byte and may be
  /// packed on several threads.
  std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const override {
    require_shape(rows, cols, kName);
    const std::int64_t group = tile_columns(cols);
    if (cols % group != 0) refuse(cols);
    std::vector<PartSpec> parts = {{"codes", DType::u8, {rows, cols / group, stream_.bytes(group)}},
                                   {"scales", DType::f16, {rows, cols / group}}};
    if (!params_.symmetric) parts.push_back({"zeros", DType::u8, {cols / group, stream_.bytes(rows)}});
    if (!params_.column_order) return parts;
    if (cols > ColumnOrder::kMostColumns)
      throw Error("int_grouped: column_order", "an order of " + std::to_string(cols) + " columns", "up to 65536 columns", "set column_order to false");
    parts.push_back({"order", DType::u8, {cols, 2}});
    return parts;
  }

  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const override {
    require_finite(tile, kName);
    const std::vector<float> importance = search_importance(options.importance, tile.shape[1], kName);
    const GroupFit fitter{kName, params_.bits, params_.symmetric};
    auto grid = std::make_unique<GroupGrid>();
    grid->max_code = fitter.max_code();
    for (std::int64_t r = 0; r < tile.shape[0]; ++r)
      grid->groups.push_back(options.search ? fitter.searched(tile[r], importance) : fitter.covering(tile[r]));
    return grid;
  }

  void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const override {
    const auto& groups = dynamic_cast<const GroupGrid&>(grid).groups;
    const std::int64_t g = first_column / tile_columns(out.cols);
    std::vector<std::uint8_t> buffer(std::max(out.rows, codes.shape[1]));
    for (std::int64_t r = 0; r < out.rows; ++r) {
      for (std::int64_t c = 0; c < codes.shape[1]; ++c) buffer[c] = static_cast<std::uint8_t>(codes(r, c));
      stream_.pack(buffer.data(), codes.shape[1], &codes_of(out)(r, g, 0));
      scales_of(out)(r, g) = to_half(groups[r].scale);
    }
    if (params_.symmetric) return;
    for (std::int64_t r = 0; r < out.rows; ++r) buffer[r] = static_cast<std::uint8_t>(groups[r].zero);
    stream_.pack(buffer.data(), out.rows, &zeros_of(out)(g, 0));
  }

  bool store_column_order(View<const std::int32_t, 1> order, PackedWeight& out) const override {
    if (params_.column_order) ColumnOrder::store(order, out.parts.back());
    return params_.column_order;
  }

  void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const override {
    const std::int64_t size = tile_columns(w.cols);
    const std::vector<std::int32_t> order = order_of(w);
    std::vector<std::uint8_t> codes(size);
    for (std::int64_t r = 0; r < out.shape[0]; ++r) {
      for (std::int64_t g = 0; g < w.cols / size; ++g) {
        stream_.unpack(&codes_of(w)(first_row + r, g, 0), size, codes.data());
        const Group group = load(w, first_row + r, g);
        for (std::int64_t i = 0; i < size; ++i) {
          const std::int64_t place = g * size + i;
          out(r, order.empty() ? place : order[place]) = value_of(codes[i], group);  // (I7)
        }
      }
    }
  }

  int code_bits() const override { return params_.bits; }
  IntegerCodes integer_codes(const PackedWeight& w) const override {
    IntegerCodes all{params_.bits, w.rows, w.cols, tile_columns(w.cols), {}, {}, {}, order_of(w)};
    all.codes.resize(w.rows * w.cols);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t g = 0; g < all.groups(); ++g) {
        stream_.unpack(&codes_of(w)(r, g, 0), all.group, &all.codes[r * w.cols + g * all.group]);
        all.scales.push_back(scales_of(w)(r, g));
        all.zeros.push_back(static_cast<std::uint8_t>(load(w, r, g).zero));
      }
    }
    return all;
  }

  void store_integer_codes(const IntegerCodes& all, PackedWeight& out) const override {
    if (all.bits != params_.bits || all.group != tile_columns(all.cols)) throw Error(label(), "codes of another width or group");
    if (!all.order.empty() && !store_column_order({all.order.data(), {all.cols}}, out))
      throw Error(label(), "columns in another order than the weight's", "", "column_order: true");
    const int middle = 1 << (params_.bits - 1);
    std::vector<std::uint8_t> zeros(all.rows);
    for (std::int64_t g = 0; g < all.groups(); ++g) {
      for (std::int64_t r = 0; r < all.rows; ++r) {
        stream_.pack(&all.codes[r * all.cols + g * all.group], all.group, &codes_of(out)(r, g, 0));
        scales_of(out)(r, g) = all.scales[r * all.groups() + g];
        zeros[r] = all.zeros[r * all.groups() + g];
      }
      if (!params_.symmetric) {
        stream_.pack(zeros.data(), all.rows, &zeros_of(out)(g, 0));
      } else if (std::ranges::any_of(zeros, [&](int zero) { return zero != middle; })) {
        throw Error(label(), "a zero point that is not the middle code", std::to_string(middle), "symmetric: false");
      }
    }
  }

  std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const override {
    if (!ops.device().is_host()) return prepare_on_gpu(w, ops);
    const bool fits = tile_columns(w.cols) % kIntegerBlock == 0;
    if (!params_.kernel.integer(mode, fits, label())) return decode_then_multiply(*this, w, ops);
    return in_order(integer_kernel(label(), GroupSource(*this, w), ops), w, ops);
  }

 private:
  std::unique_ptr<LinearKernel> prepare_on_gpu(const PackedWeight& w, Ops& ops) const {
    const auto multiply = gpu::pick(gpu_launchers::int_grouped_matmul, gpu::world_of(ops.device()));
    const int bits = params_.bits, group_size = static_cast<int>(tile_columns(w.cols));
    PackedWeight groups = w;
    if (params_.column_order) groups.parts.pop_back();
    return in_order(gpu_linear(label(), groups, ops, kLinearKernels, params_.kernel.choice,
                               [=](const MatmulArgs& args, gpu::Stream stream) { multiply({args, bits, group_size}, stream); }),
                    w, ops);
  }

  /// A product of columns as they are stored becomes one of the weight's.
  std::unique_ptr<LinearKernel> in_order(std::unique_ptr<LinearKernel> product, const PackedWeight& w, Ops& ops) const {
    std::vector<std::int32_t> order = order_of(w);
    return order.empty() ? std::move(product) : multiply_in_order(std::move(product), std::move(order), ops);
  }
  /// Empty where no column was moved.
  std::vector<std::int32_t> order_of(const PackedWeight& w) const {
    if (!params_.column_order) return {};
    std::vector<std::int32_t> order = ColumnOrder::load(w.parts.back());
    return std::is_sorted(order.begin(), order.end()) ? std::vector<std::int32_t>() : order;
  }

  /// (I1) as the integer kernel wants it: scale * code + offset, offset = -scale * zero, for each block of 32 columns.
  struct GroupSource final : AffineSource {
    const IntGrouped& format;
    const PackedWeight& w;
    GroupSource(const IntGrouped& f, const PackedWeight& weight) : format(f), w(weight) {
      rows = w.rows;
      cols = w.cols;
      bits = format.params_.bits <= 4 ? 4 : 8;
    }
    void read(std::int64_t row, std::uint8_t* codes, float* scales, float* offsets) const override {
      const std::int64_t size = format.tile_columns(cols), blocks = size / kIntegerBlock;
      for (std::int64_t g = 0; g < cols / size; ++g) {
        format.stream_.unpack(&codes_of(w)(row, g, 0), size, codes + g * size);
        const Group group = format.load(w, row, g);
        std::fill_n(scales + g * blocks, blocks, group.scale);
        std::fill_n(offsets + g * blocks, blocks, value_of(0, group));
      }
    }
  };

  Group load(const PackedWeight& w, std::int64_t row, std::int64_t g) const {
    return {to_float(scales_of(w)(row, g)), params_.symmetric ? 1 << (params_.bits - 1) : stream_.at(&zeros_of(w)(g, 0), row)};
  }
  static View<std::uint8_t, 3> codes_of(const PackedWeight& w) { return w.parts[0].as<std::uint8_t, 3>(); }
  static View<Half, 2> scales_of(const PackedWeight& w) { return w.parts[1].as<Half, 2>(); }
  static View<std::uint8_t, 2> zeros_of(const PackedWeight& w) { return w.parts[2].as<std::uint8_t, 2>(); }

  [[noreturn]] void refuse(std::int64_t cols) const {
    std::string allowed;
    for (std::int64_t group = kIntegerBlock; group <= cols; group += kIntegerBlock)
      if (cols % group == 0) allowed += std::to_string(group) + ", ";
    throw Error("int_grouped: group_size", "groups of " + std::to_string(params_.group_size) + " do not divide a row of " + std::to_string(cols),
                allowed + "-1 (the whole row), or any other divisor of " + std::to_string(cols));
  }

  Params params_;
  BitStream stream_;
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, IntGrouped, "int_grouped", "integer codes of 2 to 8 bits; a group of weights shares scale and zero point",
                "Jacob et al. 2018 (arXiv:1712.05877); groups as in GPTQ, Frantar et al. 2023 (arXiv:2210.17323)")

}  // namespace patchbay
