// What every quantizer promises, over every plugin found and every format.
#include <catch2/catch.hpp>
#include <cmath>

#include "patchbay/quantizer.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

constexpr std::int64_t kRows = 24, kCols = 256, kTokens = 256;  // a super-block has 256 columns

/// Inputs of a layer: neighbouring columns are correlated, and some are much larger than others, as in a language model.
Matrix layer_inputs() {
  Matrix x = normal_matrix(kTokens, kCols, 1.0f, 31);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t c = 0; c < kCols; ++c) {
      if (c > 0) x.at(t, c) = 0.6f * x.at(t, c - 1) + 0.8f * x.at(t, c);
    }
  for (std::int64_t t = 0; t < kTokens; ++t) for (std::int64_t c = 0; c < kCols; c += 17) x.at(t, c) *= 6.0f;
  return x;
}

struct Calibration {
  Matrix x = layer_inputs(), hessian{kCols, kCols};
  std::vector<float> moments = std::vector<float>(kCols), largest = moments;
  Statistics statistics;

  explicit Calibration(Needs needs) {
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t i = 0; i < kCols; ++i) {
        moments[i] += x.at(t, i) * x.at(t, i) / kTokens;
        largest[i] = std::max(largest[i], std::fabs(x.at(t, i)));
        for (std::int64_t j = 0; j < kCols; ++j) hessian.at(i, j) += 2 * x.at(t, i) * x.at(t, j) / kTokens;
      }
    statistics.tokens = kTokens;
    if (needs.moments) {
      statistics.second_moment = {moments.data(), {kCols}};
      statistics.largest = {largest.data(), {kCols}};
    }
    if (needs.hessian) statistics.hessian = hessian.view();
    if (needs.inputs > 0) statistics.inputs = std::as_const(x).view().rows(0, std::min(needs.inputs, kTokens));
  }
  /// What a quantizer with these needs sets out to make small: the error of the weights, weighted by the inputs' size, or of the outputs.
  double loss(Needs needs, double norm, const Matrix& w, const Matrix& decoded) const {
    double sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t i = 0; i < kCols; ++i) {
        const double error = w.at(r, i) - decoded.at(r, i);
        if (!needs.any()) sum += std::pow(std::fabs(error), norm);
        if (needs.moments && !needs.hessian) sum += error * error * moments[i];
        if (!needs.hessian) continue;
        for (std::int64_t j = 0; j < kCols; ++j) sum += error * hessian.at(i, j) * (w.at(r, j) - decoded.at(r, j));
      }
    return sum;
  }
};

Matrix quantized(const Quantizer& quantizer, const WeightFormat& format, const Matrix& w, const Statistics& statistics) {
  PackedWeight packed = format.allocate("w", w.rows, w.cols, host_backend().device());
  quantizer.quantize(w.view(), statistics, format, host_backend().device(), packed);
  Matrix decoded(w.rows, w.cols);
  format.decode(packed, 0, decoded.view());
  return decoded;
}

/// Which formats a quantizer must take; it must refuse all others. Whatever is not named here is for any format, as rtn, gptq and scale_search are.
bool is_for(const std::string& quantizer, const std::string& format) {
  const bool integers = format.starts_with("int_grouped/"), symmetric = format.find("/sym") != std::string::npos;
  if (quantizer == "hqq") return (integers && !symmetric) || format == "q4_1" || format == "q5_1";  // zero points, of one group a tile
  if (quantizer == "eetq") return format == "int_grouped/b8/row/sym";
  return true;
}

/// The power of an error that a quantizer makes small which does not look at inputs.
double norm_of(const std::string& quantizer) { return quantizer == "hqq" ? 0.7 : 2.0; }

/// A quantizer that serves some formats alone says which.
bool takes(const Quantizer& quantizer, const WeightFormat& format, const Statistics& statistics) {
  try {
    quantized(quantizer, format, normal_matrix(kRows, kCols, 0.05f, 34), statistics);
    return true;
  } catch (const Error& error) {
    REQUIRE_THAT(error.problem(), Catch::Contains(format.label()));
    REQUIRE_FALSE(error.allowed().empty());
    return false;
  }
}

/// Every quantizer as it is by default on every format that it takes; and every variant of it on some of them, each on others.
template <class Body>
void for_each_quantizer(Body body) {
  constexpr std::size_t kStep = 29;
  auto formats = all_formats();
  formats.push_back(make<WeightFormat>(spec_of("int_grouped", {{"bits", "8"}, {"group_size", "-1"}, {"symmetric", "true"}})));  // eetq's
  for (const auto& name : Registry::instance().names("quantizers")) {
    INFO(name);
    std::vector<PluginSpec> specs = variants("quantizers", name);
    specs.insert(specs.begin(), {name, nullptr});
    for (std::size_t v = 0; v < specs.size(); ++v) {
      const auto quantizer = make<Quantizer>(specs[v]);
      if (quantizer->keeps_stored()) break;
      const Calibration calibration(quantizer->needs());
      for (std::size_t f = v == 0 ? 0 : v % kStep; f < formats.size(); f += v == 0 ? 1 : kStep) {
        INFO(formats[f]->label() << ", variant " << v);
        const bool taken = takes(*quantizer, *formats[f], calibration.statistics);
        REQUIRE(taken == is_for(name, formats[f]->label()));
        if (taken) body(name, *quantizer, *formats[f], calibration);
      }
    }
  }
}

}  // namespace

TEST_CASE("quantizers: the one that keeps weights as stored never chooses codes") {
  const auto none = make<Quantizer>({"none", nullptr});
  REQUIRE(none->keeps_stored());
  PackedWeight out;
  out.name = "blk.0.attn_q.weight";
  REQUIRE_THROWS_WITH(none->quantize({}, {}, *make<WeightFormat>({"fp32", nullptr}), host_backend().device(), out),
                      Catch::Contains("blk.0.attn_q.weight"));
}

TEST_CASE("quantizers: each takes the formats that it is for, and is never worse than rounding to nearest on its own objective") {
  const auto rtn = make<Quantizer>({"rtn", nullptr});
  const Matrix w = normal_matrix(kRows, kCols, 0.05f, 32);
  for_each_quantizer([&](const std::string& name, const Quantizer& quantizer, const WeightFormat& format, const Calibration& calibration) {
    const Matrix ours = quantized(quantizer, format, w, calibration.statistics), nearest = quantized(*rtn, format, w, {});
    const auto loss = [&](const Matrix& decoded) { return calibration.loss(quantizer.needs(), norm_of(name), w, decoded); };
    REQUIRE(loss(ours) <= loss(nearest) * 1.0001 + 1e-12);
  });
}

TEST_CASE("quantizers: finite weights give finite weights, and a NaN is refused") {
  const auto kinds = weights_of_many_kinds(kRows, kCols);
  for_each_quantizer([&](const std::string&, const Quantizer& quantizer, const WeightFormat& format, const Calibration& calibration) {
    for (const auto& [kind, w] : kinds) {
      INFO(kind);
      const Matrix ours = quantized(quantizer, format, w, calibration.statistics);
      REQUIRE(std::ranges::all_of(ours.values, [](float value) { return std::isfinite(value); }));
    }
    Matrix bad = normal_matrix(kRows, kCols, 0.05f, 33);
    bad.at(5, 70) = std::numeric_limits<float>::quiet_NaN();
    REQUIRE_THROWS_AS(quantized(quantizer, format, bad, calibration.statistics), Error);
  });
}
