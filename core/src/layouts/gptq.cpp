// GPTQ's layout. Numbers as in AutoGPTQ's qlinear modules and GPTQModel's, whose two versions differ in qzeros: the first stores each zero point less
// 1. A zero point of 0 then has no field of its own: GPTQModel takes 1 off the packed words, so that it borrows from its neighbour, and adds it again
// when it reads; AutoGPTQ destroyed the neighbours. Here the first version is read as GPTQModel reads it, and never written with a zero point of 0.
#include <fmt/format.h>

#include <algorithm>

#include "layouts/integer_layout.h"
#include "layouts/packed_words.h"
#include "patchbay/half.h"

namespace patchbay {
namespace {

constexpr std::int64_t kBlock = 32;  // codes that fill whole words, whatever their bits

constexpr const char* kBits = "2, 3, 4, 8";
bool has_layout(int bits) { return bits == 2 || bits == 3 || bits == 4 || bits == 8; }

/// 1 in every field of a word.
std::uint32_t ones(int bits) {
  std::uint32_t word = 0;
  for (int at = 0; at < 32; at += bits) word |= 1u << at;
  return word;
}

class Gptq final : public IntegerLayout {
 public:
  std::string_view name() const override { return "GPTQ"; }

  IntegerCodes describe(const ModuleTensors& module, const QuantizationConfig& config) const override {
    const FileTensor &qweight = module.at("qweight", {"I32"}, 2), &scales = module.at("scales", {"F16", "BF16", "F32"}, 2);
    module.at("qzeros", {"I32"}, 2);
    const FileTensor* g_idx = module.find("g_idx") ? &module.at("g_idx", {"I32", "I64"}, 1) : nullptr;
    IntegerCodes w;
    w.rows = qweight.shape[0];
    const std::int64_t words = qweight.shape[1], groups = scales.shape[1];
    if (config.varies && !g_idx) module.fail("g_idx", "missing tensor: with \"dynamic\" it says how many columns there are");
    w.bits = config.varies ? static_cast<int>(words * 32 / g_idx->shape[0]) : config.bits;
    if (!has_layout(w.bits)) module.fail("qweight", fmt::format("has codes of {} bits, which are not read", w.bits), kBits);
    w.cols = words * 32 / w.bits;
    w.group = config.varies ? w.cols / groups : config.group_size < 0 ? w.cols : config.group_size;
    require_whole(module, w, words);
    module.require_shape("scales", {w.rows, w.groups()}, "qweight and group_size");
    module.require_shape("qzeros", {PackedWords{w.bits}.words(w.rows), w.groups()}, "qweight, bits and group_size");
    if (g_idx) w.order = order_of(module, *g_idx, w);
    return w;
  }

  void read(const ModuleTensors& module, const QuantizationConfig& config, std::int64_t first_row, IntegerCodes& out) const override {
    const FileTensor& qweight = *module.find("qweight");
    const std::int64_t all_rows = qweight.shape[0], groups = out.groups();
    const PackedWords packed{out.bits};
    out.codes.resize(static_cast<std::size_t>(out.rows * out.cols));
    std::vector<std::uint8_t> block(kBlock);
    std::vector<std::int32_t> place(static_cast<std::size_t>(out.cols));  // of each column of the weight among the codes
    for (std::int64_t j = 0; j < out.cols; ++j) place[out.order.empty() ? j : out.order[j]] = static_cast<std::int32_t>(j);
    for (std::int64_t c = 0; c < out.cols; c += kBlock) {
      const std::int64_t count = std::min(kBlock, out.cols - c);
      for (std::int64_t r = 0; r < out.rows; ++r) {
        packed.unpack(qweight.data + (c * out.bits / 32 * all_rows + first_row + r) * 4, all_rows, count, block.data());
        for (std::int64_t i = 0; i < count; ++i) out.codes[r * out.cols + place[c + i]] = block[i];
      }
    }
    out.scales.resize(static_cast<std::size_t>(out.rows * groups));
    out.zeros.resize(out.scales.size());
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::vector<std::uint8_t> zeros = zeros_of(module, g, config.zeros_less_one, all_rows, out.bits);
      for (std::int64_t r = 0; r < out.rows; ++r) {
        out.scales[r * groups + g] = module.scale("scales", g * all_rows + first_row + r);
        out.zeros[r * groups + g] = zeros[first_row + r];
      }
    }
  }

  std::vector<ModuleOutput> write(const IntegerCodes& w, const QuantizationConfig& config) const override {
    if (!has_layout(w.bits)) throw Error("layout gptq", fmt::format("codes of {} bits", w.bits), kBits, "format.bits=4");
    if (w.cols * w.bits % 32 != 0 || w.rows * w.bits % 32 != 0) {
      throw Error("layout gptq", fmt::format("{} x {} codes of {} bits fill no whole words of 32 bits", w.rows, w.cols, w.bits), "rows and columns that are multiples of 32",
                  "keep this weight by a rule (quantizer: none)");
    }
    const PackedWords packed{w.bits};
    const std::int64_t words = packed.words(w.cols), zero_words = packed.words(w.rows);
    const TensorType *i32 = find_tensor_type("I32"), *f16 = find_tensor_type("F16");
    std::vector<ModuleOutput> out = {{"qweight", i32, {w.rows, words}, {}}, {"qzeros", i32, {zero_words, w.groups()}, {}}, {"scales", f16, {w.rows, w.groups()}, {}},
                                     {"g_idx", i32, {w.cols}, {}}};
    if (w.codes.empty()) return out;
    out[0].bytes = qweight_of(w, words);
    out[1].bytes = qzeros_of(w, zero_words, config.zeros_less_one);
    for (std::int64_t g = 0; g < w.groups(); ++g)
      for (std::int64_t r = 0; r < w.rows; ++r) append(out[2].bytes, w.scales[r * w.groups() + g]);
    std::vector<std::int32_t> group_of(static_cast<std::size_t>(w.cols));
    for (std::int64_t j = 0; j < w.cols; ++j) group_of[w.order.empty() ? j : w.order[j]] = static_cast<std::int32_t>(j / w.group);
    for (const std::int32_t group : group_of) append(out[3].bytes, group);
    return out;
  }

 private:
  template <class T>
  static void append(std::string& bytes, T value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }

  static void require_whole(const ModuleTensors& module, const IntegerCodes& w, std::int64_t words) {
    if (w.cols * w.bits != words * 32) module.fail("qweight", fmt::format("has {} rows of words, which hold no whole number of {}-bit codes", words, w.bits), "3 words for 32 codes");
    if (w.group < 1 || w.cols % w.group != 0)
      module.fail("scales", fmt::format("groups of {} do not divide {} columns", w.group, w.cols), "a group_size that divides the columns", "quantise the model again with such a group_size");
    if (w.rows * w.bits % 32 != 0) module.fail("qzeros", fmt::format("{} zero points of {} bits fill no whole words", w.rows, w.bits), "outputs that are a multiple of 32");
  }

  /// The columns by their groups, each group's in the order of the weight; empty where that is the order of the weight.
  static std::vector<std::int32_t> order_of(const ModuleTensors& module, const FileTensor& g_idx, const IntegerCodes& w) {
    module.require_shape("g_idx", {w.cols}, "qweight and bits");
    std::vector<std::vector<std::int32_t>> columns(static_cast<std::size_t>(w.groups()));
    bool in_order = true;
    for (std::int64_t c = 0; c < w.cols; ++c) {
      std::int64_t group = 0;
      std::memcpy(&group, g_idx.data + c * g_idx.bytes / w.cols, static_cast<std::size_t>(g_idx.bytes / w.cols));  // little-endian
      if (group < 0 || group >= w.groups()) module.fail("g_idx", fmt::format("column {} is in group {}", c, static_cast<std::int32_t>(group)), fmt::format("0 to {}", w.groups() - 1));
      in_order = in_order && group == c / w.group;
      columns[group].push_back(static_cast<std::int32_t>(c));
    }
    std::vector<std::int32_t> order;
    for (std::size_t g = 0; g < columns.size(); ++g) {
      if (std::ssize(columns[g]) != w.group) module.fail("g_idx", fmt::format("group {} has {} columns", g, columns[g].size()), fmt::format("{} by group_size", w.group));
      order.insert(order.end(), columns[g].begin(), columns[g].end());
    }
    if (in_order) order.clear();
    return order;
  }

  /// All rows' zero points of a group.
  static std::vector<std::uint8_t> zeros_of(const ModuleTensors& module, std::int64_t group, bool less_one, std::int64_t rows, int bits) {
    const FileTensor& qzeros = *module.find("qzeros");
    std::vector<std::uint32_t> words(static_cast<std::size_t>(qzeros.shape[0]));
    std::memcpy(words.data(), qzeros.data + group * qzeros.shape[0] * 4, words.size() * 4);
    const bool fields_in_words = bits != 3;
    if (less_one && fields_in_words)
      for (std::uint32_t& word : words) word += ones(bits);
    std::vector<std::uint8_t> zeros(static_cast<std::size_t>(rows));
    PackedWords{bits}.unpack(words.data(), 1, rows, zeros.data());
    if (less_one && !fields_in_words)
      for (std::uint8_t& zero : zeros) zero = (zero + 1) & 7;
    return zeros;
  }

  static std::string qweight_of(const IntegerCodes& w, std::int64_t words) {
    std::vector<std::uint32_t> out(static_cast<std::size_t>(words * w.rows));
    std::vector<std::uint8_t> column_order(static_cast<std::size_t>(w.cols));
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t j = 0; j < w.cols; ++j) column_order[w.order.empty() ? j : w.order[j]] = w.codes[r * w.cols + j];
      PackedWords{w.bits}.pack(column_order.data(), w.cols, out.data() + r, w.rows);
    }
    return {reinterpret_cast<const char*>(out.data()), out.size() * 4};
  }

  static std::string qzeros_of(const IntegerCodes& w, std::int64_t words, bool less_one) {
    std::vector<std::uint32_t> out(static_cast<std::size_t>(words * w.groups()));
    std::vector<std::uint8_t> zeros(static_cast<std::size_t>(w.rows));
    for (std::int64_t g = 0; g < w.groups(); ++g) {
      for (std::int64_t r = 0; r < w.rows; ++r) {
        zeros[r] = w.zeros[r * w.groups() + g];
        if (!less_one) continue;
        if (zeros[r] == 0) {
          throw Error("layout gptq", fmt::format("row {}, group {} has the zero point 0, and this version of the layout stores it less 1", r, g),
                      "zero points from 1 on", "--layout gptq_v2, or format.symmetric=true");
        }
        --zeros[r];
      }
      PackedWords{w.bits}.pack(zeros.data(), w.rows, out.data() + g * words, 1);
    }
    return {reinterpret_cast<const char*>(out.data()), out.size() * 4};
  }
};

}  // namespace

const IntegerLayout& gptq_layout() {
  static const Gptq layout;
  return layout;
}

}  // namespace patchbay
