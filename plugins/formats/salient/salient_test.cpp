// What is particular to salient: which columns are kept, and that a product sees them.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <utility>

#include "patchbay/half.h"
#include "patchbay/quantizer.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

constexpr std::int64_t kRows = 48, kCols = 256;

PluginSpec salient(const std::string& share, const std::string& by, const std::string& bits = "3", const std::string& seed = "0",
                   const std::string& kernel = "split") {
  PluginSpec spec = spec_of("salient", {{"share", share}, {"by", by}, {"seed", seed}, {"kernel", kernel}});
  auto settings = std::make_shared<Settings>(*spec.settings);
  Settings inner = *spec_of("int_grouped", {{"bits", bits}, {"group_size", "64"}}).settings;
  Settings type;
  type.kind = Settings::Kind::scalar;
  type.text = "int_grouped";
  type.where = "test";
  inner.entries.insert(inner.entries.begin(), {"type", type});
  settings->entries.emplace_back("inner", inner);
  return {"salient", settings};
}

struct Quantised {
  PackedWeight packed;
  Matrix decoded{kRows, kCols};
};
/// As the engine does it: fitted, quantised, and read by the format as it is written in YAML.
Quantised quantised(const PluginSpec& spec, const Matrix& w, const Statistics& statistics) {
  const auto format = make<WeightFormat>(spec);
  const auto fitted = format->fitted_to(w.view(), statistics);
  Quantised result{fitted->allocate("w", kRows, kCols, host_backend().device())};
  make<Quantizer>({"rtn", nullptr})->quantize(w.view(), statistics, *fitted, host_backend().device(), result.packed);
  format->decode(result.packed, 0, result.decoded.view());
  return result;
}
/// Columns that hold every weight's fp16 number.
std::set<std::int64_t> kept_columns(const Matrix& w, const Matrix& decoded) {
  std::set<std::int64_t> kept;
  for (std::int64_t c = 0; c < kCols; ++c) {
    bool all = true;
    for (std::int64_t r = 0; r < kRows; ++r) all = all && decoded.at(r, c) == to_float(to_half(w.at(r, c)));
    if (all) kept.insert(c);
  }
  return kept;
}

}  // namespace

TEST_CASE("salient: the columns of the largest inputs, of the largest weights, or drawn ones") {
  Matrix w = normal_matrix(kRows, kCols, 0.05f, 1);
  std::vector<float> moments(kCols, 1.0f);
  for (std::int64_t c : {3, 77, 200}) moments[c] = 50.0f;
  for (std::int64_t r = 0; r < kRows; ++r) for (std::int64_t c : {9, 64, 255}) w.at(r, c) *= 4;
  Statistics statistics;
  statistics.tokens = 10;
  statistics.second_moment = {moments.data(), {kCols}};
  const auto kept = [&](const PluginSpec& spec, const Matrix& weight, const Statistics& s) { return kept_columns(weight, quantised(spec, weight, s).decoded); };
  CHECK(kept(salient("0.01", "activation"), w, statistics) == std::set<std::int64_t>{3, 77, 200});  // 2.56 columns, rounded up
  CHECK(kept(salient("0.01", "weight"), w, statistics) == std::set<std::int64_t>{9, 64, 255});
  CHECK(kept(salient("0.01", "activation"), w, {}) == std::set<std::int64_t>{9, 64, 255});  // an expert that was never chosen
  const auto drawn = kept(salient("0.03", "random"), w, statistics);
  CHECK(drawn.size() == 8);
  CHECK(drawn == kept(salient("0.03", "random"), w, statistics));
  CHECK(drawn != kept(salient("0.03", "random", "3", "1"), w, statistics));
  const Matrix other = normal_matrix(kRows, kCols, 0.05f, 2);
  CHECK(drawn != kept(salient("0.03", "random"), other, statistics));
  CHECK(kept(salient("1", "weight"), w, statistics).size() == kCols);
  CHECK(make<WeightFormat>(salient("0.01", "activation"))->needs().moments);
  CHECK_FALSE(make<WeightFormat>(salient("0.01", "weight"))->needs().any());
}

TEST_CASE("salient: all other columns, and all of them without a share, are the inner format's") {
  const Matrix w = normal_matrix(kRows, kCols, 0.05f, 1);
  const auto inner = make<WeightFormat>(spec_of("int_grouped", {{"bits", "3"}, {"group_size", "64"}}));
  Matrix plain(kRows, kCols);
  round_to_format(*inner, w, host_backend().device(), plain);
  REQUIRE(quantised(salient("0", "weight"), w, {}).decoded.values == plain.values);
  const Matrix decoded = quantised(salient("0.03", "weight"), w, {}).decoded;
  const auto kept = kept_columns(w, decoded);
  REQUIRE(kept.size() == 8);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < kCols; ++c) if (!kept.contains(c)) REQUIRE(decoded.at(r, c) == plain.at(r, c));
  const auto bits = [&](const char* share) { return make<WeightFormat>(salient(share, "weight"))->bits_per_weight(kRows, kCols); };
  CHECK(bits("0") == inner->bits_per_weight(kRows, kCols));
  CHECK(bits("0.03") == Approx(bits("0") + (16.0 * 8 * kRows + 32.0 * 8) / (kRows * kCols)).epsilon(1e-12));
}

TEST_CASE("salient: products see the kept columns, in floats and in integers") {
  const Matrix w = normal_matrix(kRows, kCols, 0.05f, 1), x = normal_matrix(5, kCols, 1.0f, 2);
  for (const char* kernel : {"decode", "split"}) {
    const auto format = make<WeightFormat>(salient("0.03", "weight", "3", "0", kernel));
    const Quantised q = quantised(salient("0.03", "weight", "3", "0", kernel), w, {});
    for (const ActivationMode mode : {ActivationMode::fp32, ActivationMode::q8}) {
      const auto product = format->prepare(q.packed, host_backend().ops(), mode);
      INFO(product->path());
      if (kernel == std::string("split")) CHECK_THAT(product->path(), Catch::Contains(mode == ActivationMode::q8 ? ":split/integer/" : ":split/decode/"));
      std::vector<float> first_row;
      for (const std::int64_t tokens : {5, 1}) {
        Matrix y(tokens, kRows);
        Activation input(mode, host_backend().ops());
        input.reset(View<const float, 2>(x.values.data(), {tokens, kCols}));
        product->run(input, y.view());
        const auto seen = input.values().as<const float, 2>();
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t r = 0; r < kRows; ++r) {
            double expected = 0, size = 0;
            for (std::int64_t c = 0; c < kCols; ++c) {
              const double term = static_cast<double>(seen(t, c)) * q.decoded.at(r, c);
              expected += term;
              size += std::fabs(term);
            }
            REQUIRE(std::fabs(y.at(t, r) - expected) <= 1e-5 * size);
          }
        const std::vector<float> row(y.values.begin(), y.values.begin() + kRows);
        if (first_row.empty()) first_row = row;
        REQUIRE(first_row == row);  // whatever batch it is in
      }
    }
  }
}

TEST_CASE("salient: on an emulated GPU the inner weights stay packed, and the kept columns are added") {
  const auto simt = make<Backend>(spec_of("simt", {{"checked", "true"}}));
  Device& device = simt->device();
  const Matrix w = normal_matrix(kRows, kCols, 0.05f, 1);
  Matrix x = normal_matrix(3, kCols, 1.0f, 6);
  std::vector<Half> bits(x.values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) x.values[i] = to_float(bits[i] = to_half(x.values[i]));
  const Buffer x_there = device.allocate(3 * kCols * 2), y_there = device.allocate(3 * kRows * 4);
  device.copy(View<Half, 2>(bits.data(), {3, kCols}), x_there.tensor(DType::f16, {3, kCols}));
  Activation input(ActivationMode::fp32, simt->ops());
  input.reset(x_there.tensor(DType::f16, {3, kCols}));
  const PluginSpec spec = salient("0.03", "weight", "4", "0", "beside");
  const Quantised q = quantised(spec, w, {});
  const auto format = make<WeightFormat>(spec);
  const auto product = format->prepare(q.packed, simt->ops(), ActivationMode::fp32);
  REQUIRE_THAT(product->path(), Catch::StartsWith(format->label() + ":beside/"));
  REQUIRE_FALSE(product->takes_rows());
  Matrix y(3, kRows);
  for (const DType type : {DType::f32, DType::f16}) {
    product->run(input, y_there.tensor(type, {3, kRows}));
    if (type == DType::f32) {
      device.copy(y_there.tensor(type, {3, kRows}), y.view());
    } else {
      std::vector<Half> halves(y.values.size());
      device.copy(y_there.tensor(type, {3, kRows}), View<Half, 2>(halves.data(), {3, kRows}));
      for (std::size_t i = 0; i < halves.size(); ++i) y.values[i] = to_float(halves[i]);
    }
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t r = 0; r < kRows; ++r) {
        double expected = 0, size = 0;
        for (std::int64_t c = 0; c < kCols; ++c) {
          const double term = static_cast<double>(x.at(t, c)) * q.decoded.at(r, c);
          expected += term;
          size += std::fabs(term);
        }
        REQUIRE(std::fabs(y.at(t, r) - expected) <= 1e-3 * size);
      }
  }
}

TEST_CASE("salient: a row that the inner format cannot hold is refused as there") {
  REQUIRE_THROWS_WITH(make<WeightFormat>(salient("0.01", "weight"))->layout(8, 96), Catch::Contains("groups of 64 do not divide a row of 96"));
  REQUIRE_THROWS_WITH(make<WeightFormat>(salient("2", "weight")), Catch::Contains("0 to 1"));
}
