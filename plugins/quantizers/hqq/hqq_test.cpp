// What is particular to hqq: the norm that it makes small, beside rounding to nearest and beside the authors' own package; which formats it serves.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "patchbay/half.h"
#include "patchbay/quantizer.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

struct Result {
  Matrix decoded;
  std::string note;
};
Result quantized(const std::string& type, const Values& settings, const WeightFormat& format, const Matrix& w) {
  PackedWeight packed = format.allocate("w", w.rows, w.cols, host_backend().device());
  make<Quantizer>(spec_of(type, settings))->quantize(w.view(), {}, format, host_backend().device(), packed);
  Result result{Matrix(w.rows, w.cols), packed.note};
  format.decode(packed, 0, result.decoded.view());
  return result;
}

/// Mean of |error|^norm.
double error(const Matrix& w, const Matrix& decoded, double norm) {
  double sum = 0;
  for (std::size_t i = 0; i < w.values.size(); ++i) sum += std::pow(std::fabs(double{w.values[i]} - decoded.values[i]), norm);
  return sum / static_cast<double>(w.values.size());
}

/// Many small weights and a few large ones.
Matrix heavy_tails(std::int64_t rows, std::int64_t cols) {
  Matrix w = normal_matrix(rows, cols, 0.05f, 61);
  for (float& value : w.values) value *= 1 + 400 * value * value;
  return w;
}

}  // namespace

TEST_CASE("hqq: its norm is smaller than rounding to nearest's in every format with zero points, and no group's is larger") {
  const Matrix w = heavy_tails(24, 128);
  for (const auto& [type, settings] : std::vector<std::pair<std::string, Values>>{
           {"q4_1", {}}, {"q5_1", {}}, {"int_grouped", {{"bits", "2"}, {"group_size", "64"}}}, {"int_grouped", {{"bits", "3"}, {"group_size", "-1"}}}}) {
    const auto format = make<WeightFormat>(spec_of(type, settings));
    const std::int64_t width = format->tile_columns(w.cols);
    const Matrix nearest = quantized("rtn", {}, *format, w).decoded;
    for (const char* solve : {"zero", "both"}) {
      INFO(format->label() << ", solve " << solve);
      const Result ours = quantized("hqq", {{"solve", solve}}, *format, w);
      CHECK_THAT(ours.note, Contains("% of the groups moved"));
      const bool whole_codes = type == "int_grouped" && std::string(solve) == "zero";  // then no zero point may move by as much as one
      CHECK(error(w, ours.decoded, 0.7) <= error(w, nearest, 0.7) * (whole_codes ? 1.0 : 0.99));
      for (std::int64_t r = 0; r < w.rows; ++r)
        for (std::int64_t first = 0; first < w.cols; first += width) {
          double group = 0, plain = 0;
          for (std::int64_t c = first; c < first + width; ++c) {
            group += std::pow(std::fabs(double{w.at(r, c)} - ours.decoded.at(r, c)), 0.7);
            plain += std::pow(std::fabs(double{w.at(r, c)} - nearest.at(r, c)), 0.7);
          }
          CHECK(group <= plain * 1.000001);
        }
    }
  }
}

TEST_CASE("hqq: as near in its norm as the authors' package, from the same weights") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/hqq/errors.json")));
  const std::string hex = golden.at("weights");
  const std::int64_t cols = golden.at("columns");
  Matrix w(static_cast<std::int64_t>(hex.size()) / 4 / cols, cols);
  for (std::size_t i = 0; i < w.values.size(); ++i)
    w.values[i] = to_float(Half{static_cast<std::uint16_t>(std::stoi(hex.substr(4 * i + 2, 2) + hex.substr(4 * i, 2), nullptr, 16))});
  for (const auto& [bits, type] : {std::pair("4", "q4_1"), {"5", "q5_1"}}) {
    INFO(type);
    const auto& theirs = golden.at("errors_by_bits").at(bits);
    const auto format = make<WeightFormat>({type, nullptr});
    CHECK(error(w, quantized("rtn", {}, *format, w).decoded, 0.7) == Approx(theirs.at("plain").at("norm").get<double>()).epsilon(0.01));
    const Matrix ours = quantized("hqq", {{"solve", "zero"}}, *format, w).decoded;
    CHECK(error(w, ours, 0.7) <= 1.01 * theirs.at("solved").at("norm").get<double>());
    CHECK(error(w, ours, 1.0) <= 1.02 * theirs.at("solved").at("mean").get<double>());
  }
}

TEST_CASE("hqq: formats without zero points, or with several groups in a tile, are refused") {
  const Matrix w = heavy_tails(8, 256);
  const auto refusal = [&](const PluginSpec& format) { return message_of([&] { quantized("hqq", {}, *make<WeightFormat>(format), w); }); };
  CHECK_THAT(refusal({"q4_0", nullptr}), Contains("q4_0 has no zero points") && Contains("q4_1"));
  CHECK_THAT(refusal({"fp16", nullptr}), Contains("no zero points"));
  CHECK_THAT(refusal(spec_of("int_grouped", {{"symmetric", "true"}})), Contains("no zero points"));
  CHECK_THAT(refusal({"q4_k", nullptr}), Contains("tiles of several groups"));
}

TEST_CASE("hqq: rows of zeros, of one value and of one outlier get finite weights") {
  for (const auto& [kind, w] : weights_of_many_kinds(12, 128)) {
    INFO(kind);
    for (const char* type : {"q4_1", "int_grouped"}) {
      const auto format = make<WeightFormat>({type, nullptr});
      const Result ours = quantized("hqq", {{"solve", "both"}}, *format, w);
      for (float value : ours.decoded.values) REQUIRE(std::isfinite(value));
      CHECK(error(w, ours.decoded, 0.7) <= error(w, quantized("rtn", {}, *format, w).decoded, 0.7) * 1.000001);
    }
  }
}
