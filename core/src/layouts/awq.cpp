// AWQ's layouts, as AutoAWQ's modules WQLinear_GEMM and WQLinear_GEMV have them: codes of 4 bits, zero points as they are.
#include <fmt/format.h>

#include <algorithm>

#include "layouts/integer_layout.h"
#include "layouts/packed_words.h"
#include "patchbay/half.h"

namespace patchbay {
namespace {

constexpr int kBits = 4;
constexpr std::int64_t kPerWord = 32 / kBits;
constexpr std::int64_t kOrder[kPerWord] = {0, 2, 4, 6, 1, 3, 5, 7};  // of GEMM: nibble i of a word is output kOrder[i] of its eight

std::uint32_t word_at(const FileTensor& tensor, std::int64_t index) {
  std::uint32_t word;
  std::memcpy(&word, tensor.data + index * 4, sizeof word);
  return word;
}
std::uint8_t nibble(std::uint32_t word, std::int64_t i) { return static_cast<std::uint8_t>(word >> (i * kBits) & 15); }

std::string bytes_of_words(const std::vector<std::uint32_t>& words) { return {reinterpret_cast<const char*>(words.data()), words.size() * 4}; }
std::string bytes_of_scales(const std::vector<Half>& scales) { return {reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(Half)}; }

void require_groups(const ModuleTensors& module, const IntegerCodes& w) {
  if (w.group < 1 || w.cols % w.group != 0)
    module.fail("scales", fmt::format("groups of {} do not divide {} columns", w.group, w.cols), "a group_size that divides the columns", "quantise the model again with such a group_size");
}

[[noreturn]] void refuse(std::string problem, std::string allowed, std::string remedy) { throw Error("layout awq", std::move(problem), std::move(allowed), std::move(remedy)); }

void require_writable(const IntegerCodes& w) {
  if (w.bits != kBits) refuse(fmt::format("codes of {} bits", w.bits), "4 bits", "format.bits=4, or --layout gptq");
  if (!w.order.empty()) refuse("columns in another order than the weight's", "groups of neighbouring columns", "leave out column_order, or --layout gptq");
  if (w.rows % kPerWord != 0 || w.cols % kPerWord != 0) refuse(fmt::format("{} x {} codes of 4 bits fill no whole words of 32 bits", w.rows, w.cols), "multiples of 8", "keep this weight by a rule (quantizer: none)");
}

const TensorType* i32() { return find_tensor_type("I32"); }
const TensorType* f16() { return find_tensor_type("F16"); }

/// The module's tensor of codes, once all three are there.
const FileTensor& codes_of(const ModuleTensors& module) {
  const FileTensor& qweight = module.at("qweight", {"I32"}, 2);
  module.at("qzeros", {"I32"}, 2);
  module.at("scales", {"F16", "BF16", "F32"}, 2);
  return qweight;
}
IntegerCodes described(const ModuleTensors& module, const QuantizationConfig& config, std::int64_t rows, std::int64_t cols) {
  IntegerCodes w;
  w.bits = kBits;
  w.rows = rows;
  w.cols = cols;
  w.group = config.group_size < 0 ? cols : config.group_size;
  require_groups(module, w);
  return w;
}

class AwqGemm final : public IntegerLayout {
 public:
  std::string_view name() const override { return "AWQ"; }

  IntegerCodes describe(const ModuleTensors& module, const QuantizationConfig& config) const override {
    const FileTensor& qweight = codes_of(module);
    const IntegerCodes w = described(module, config, qweight.shape[0] * kPerWord, qweight.shape[1]);
    module.require_shape("scales", {w.rows, w.groups()}, "qweight and group_size");
    module.require_shape("qzeros", {w.rows / kPerWord, w.groups()}, "qweight and group_size");
    return w;
  }

  void read(const ModuleTensors& module, const QuantizationConfig&, std::int64_t first_row, IntegerCodes& out) const override {
    const FileTensor &qweight = *module.find("qweight"), &qzeros = *module.find("qzeros");
    const std::int64_t words = qweight.shape[0], groups = out.groups(), last_row = first_row + out.rows;
    out.codes.resize(static_cast<std::size_t>(out.rows * out.cols));
    out.scales.resize(static_cast<std::size_t>(out.rows * groups));
    out.zeros.resize(out.scales.size());
    for (std::int64_t k = first_row / kPerWord; k * kPerWord < last_row; ++k) {
      for (std::int64_t i = 0; i < kPerWord; ++i) {
        const std::int64_t row = k * kPerWord + kOrder[i], r = row - first_row;
        if (row < first_row || row >= last_row) continue;
        for (std::int64_t c = 0; c < out.cols; ++c) out.codes[r * out.cols + c] = nibble(word_at(qweight, c * words + k), i);
        for (std::int64_t g = 0; g < groups; ++g) {
          out.zeros[r * groups + g] = nibble(word_at(qzeros, g * words + k), i);
          out.scales[r * groups + g] = module.scale("scales", g * words * kPerWord + row);
        }
      }
    }
  }

  std::vector<ModuleOutput> write(const IntegerCodes& w, const QuantizationConfig&) const override {
    require_writable(w);
    const std::int64_t words = w.rows / kPerWord;
    std::vector<ModuleOutput> out = {{"qweight", i32(), {words, w.cols}, {}}, {"qzeros", i32(), {words, w.groups()}, {}}, {"scales", f16(), {w.rows, w.groups()}, {}}};
    if (w.codes.empty()) return out;
    out[0].bytes = interleaved(w.codes, w.rows, w.cols);
    out[1].bytes = interleaved(w.zeros, w.rows, w.groups());
    std::vector<Half> scales;
    for (std::int64_t g = 0; g < w.groups(); ++g)
      for (std::int64_t r = 0; r < w.rows; ++r) scales.push_back(w.scales[r * w.groups() + g]);
    out[2].bytes = bytes_of_scales(scales);
    return out;
  }

 private:
  /// (rows, cols) as words (cols, rows / 8).
  static std::string interleaved(const std::vector<std::uint8_t>& values, std::int64_t rows, std::int64_t cols) {
    std::vector<std::uint32_t> words;
    words.reserve(static_cast<std::size_t>(cols * rows / kPerWord));
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t first = 0; first < rows; first += kPerWord) {
        std::uint32_t word = 0;
        for (std::int64_t i = 0; i < kPerWord; ++i) word |= static_cast<std::uint32_t>(values[(first + kOrder[i]) * cols + c]) << (i * kBits);
        words.push_back(word);
      }
    }
    return bytes_of_words(words);
  }
};

/// Words of zero points in a row: a multiple of what AutoAWQ's kernel reads at once.
std::int64_t zero_words(std::int64_t groups, std::int64_t group) {
  const std::int64_t multiple = group >= 128 ? 1 : group == 64 ? 2 : 4;
  const std::int64_t words = (groups + kPerWord - 1) / kPerWord;
  return (words + multiple - 1) / multiple * multiple;
}

class AwqGemv final : public IntegerLayout {
 public:
  std::string_view name() const override { return "AWQ"; }

  IntegerCodes describe(const ModuleTensors& module, const QuantizationConfig& config) const override {
    const FileTensor& qweight = codes_of(module);
    const IntegerCodes w = described(module, config, qweight.shape[1], qweight.shape[0] * kPerWord);
    require_group_size(w.group);
    const std::int64_t words = zero_words(w.groups(), w.group);
    module.require_shape("qzeros", {words, w.rows}, "qweight and group_size");
    module.require_shape("scales", {words * kPerWord, w.rows}, "qweight and group_size");
    return w;
  }

  void read(const ModuleTensors& module, const QuantizationConfig&, std::int64_t first_row, IntegerCodes& out) const override {
    const FileTensor &qweight = *module.find("qweight"), &qzeros = *module.find("qzeros");
    out.codes.resize(static_cast<std::size_t>(out.rows * out.cols));
    out.zeros.resize(static_cast<std::size_t>(out.rows * out.groups()));
    const PackedWords packed{kBits};
    for (std::int64_t r = 0; r < out.rows; ++r) {
      packed.unpack(qweight.data + (first_row + r) * qweight.shape[0] * 4, 1, out.cols, &out.codes[r * out.cols]);
      packed.unpack(qzeros.data + (first_row + r) * qzeros.shape[0] * 4, 1, out.groups(), &out.zeros[r * out.groups()]);
      for (std::int64_t g = 0; g < out.groups(); ++g) out.scales.push_back(module.scale("scales", (first_row + r) * qzeros.shape[0] * kPerWord + g));
    }
  }

  std::vector<ModuleOutput> write(const IntegerCodes& w, const QuantizationConfig&) const override {
    require_writable(w);
    require_group_size(w.group);
    const std::int64_t words = zero_words(w.groups(), w.group), groups = w.groups();
    std::vector<ModuleOutput> out = {{"qweight", i32(), {w.cols / kPerWord, w.rows}, {}}, {"qzeros", i32(), {words, w.rows}, {}}, {"scales", f16(), {words * kPerWord, w.rows}, {}}};
    if (w.codes.empty()) return out;
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(w.rows * w.cols / kPerWord)), zeros(static_cast<std::size_t>(w.rows * words));
    std::vector<Half> scales(zeros.size() * kPerWord);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      PackedWords{kBits}.pack(&w.codes[r * w.cols], w.cols, &codes[r * w.cols / kPerWord], 1);
      PackedWords{kBits}.pack(&w.zeros[r * groups], groups, &zeros[r * words], 1);
      std::copy_n(&w.scales[r * groups], groups, &scales[r * words * kPerWord]);
    }
    out[0].bytes = bytes_of_words(codes);
    out[1].bytes = bytes_of_words(zeros);
    out[2].bytes = bytes_of_scales(scales);
    return out;
  }

 private:
  static void require_group_size(std::int64_t group) {
    if (group < 128 && group != 64 && group != 32) refuse(fmt::format("version GEMV has no groups of {}", group), "32, 64, 128 and more", "--layout awq (version GEMM)");
  }
};

}  // namespace

const IntegerLayout& awq_gemm_layout() {
  static const AwqGemm layout;
  return layout;
}
const IntegerLayout& awq_gemv_layout() {
  static const AwqGemv layout;
  return layout;
}

const IntegerLayout* integer_layout(const QuantizationConfig& config) {
  switch (config.method) {
    case LayoutMethod::gptq: return &gptq_layout();
    case LayoutMethod::awq: return config.gemv ? &awq_gemv_layout() : &awq_gemm_layout();
    default: return nullptr;
  }
}

}  // namespace patchbay
