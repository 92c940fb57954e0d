// What is particular to SmoothQuant: its factors are the paper's, and both sides of a product come out even.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "golden_matrix.h"
#include "patchbay/transform.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

/// A group behind a norm whose weights are 1, so that they are 1 / factors afterwards.
struct Layer {
  std::vector<Matrix> weights;
  std::vector<float> largest, norm;
  LinearGroup group;
  Layer(std::vector<Matrix> w, std::vector<float> x) : weights(std::move(w)), largest(std::move(x)), norm(largest.size(), 1.0f) {
    const auto cols = static_cast<std::int64_t>(largest.size());
    for (Matrix& matrix : weights) group.consumers.push_back({"blk.0.attn_q.weight", matrix.view(), {}, make<WeightFormat>({"q8_0", nullptr})});
    group.norm_weight = {norm.data(), {cols}};
    group.statistics.tokens = 1;
    group.statistics.largest = {largest.data(), {cols}};
  }
  Layer(const Layer&) = delete;
};

}  // namespace

TEST_CASE("smoothquant: factors are those of the paper's formula, computed by numpy") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/smoothquant/cases.json")));
  for (const auto& expected : golden["cases"]) {
    const Matrix x = matrix_of(expected["inputs_times_32"], 32);
    std::vector<float> largest(static_cast<std::size_t>(x.cols));
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t c = 0; c < x.cols; ++c) largest[c] = std::max(largest[c], std::fabs(x.at(t, c)));
    std::vector<Matrix> weights;
    for (const auto& w : expected["weights_times_1024"]) weights.push_back(matrix_of(w, 1024));
    Layer layer(weights, largest);
    const auto transform = make<Transform>(spec_of("smoothquant", {{"alpha", expected["alpha"].dump()}}));
    const std::string line = transform->apply(layer.group, host_backend().device());
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const float factor = expected["factors"][c].get<float>();
      REQUIRE(1 / layer.norm[c] == Approx(factor).epsilon(1e-5));
      for (std::size_t i = 0; i < weights.size(); ++i) REQUIRE(layer.weights[i].at(1, c) == Approx(weights[i].at(1, c) * factor).epsilon(1e-5));
    }
    char text[96];
    std::snprintf(text, sizeof text, "largest input %.3g to %.3g", expected["largest_before"].get<double>(), expected["largest_after"].get<double>());
    REQUIRE_THAT(line, Contains(text));
  }
}

TEST_CASE("smoothquant: at 0.5 input and weights share the range, at 1 all inputs reach 1, at 0 all columns of the weights") {
  for (const char* alpha : {"0.5", "1", "0"}) {
    Layer layer({normal_matrix(8, 4, 1.0f, 3)}, {0.5f, 80.0f, 3.0f, 0.01f});
    make<Transform>(spec_of("smoothquant", {{"alpha", alpha}}))->apply(layer.group, host_backend().device());
    for (std::int64_t c = 0; c < 4; ++c) {
      float w = 0;
      for (std::int64_t r = 0; r < 8; ++r) w = std::max(w, std::fabs(layer.weights[0].at(r, c)));
      const float x = layer.largest[c] * layer.norm[c];
      if (std::string(alpha) == "0.5") REQUIRE(x == Approx(w).epsilon(1e-5));
      if (std::string(alpha) == "1") REQUIRE(x == Approx(1).epsilon(1e-5));
      if (std::string(alpha) == "0") REQUIRE(w == Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("smoothquant: what cannot be smoothed is left, and the line says why") {
  Layer layer({normal_matrix(8, 4, 1.0f, 3)}, {0.5f, 80.0f, 3.0f, 0.01f});
  const std::vector<float> before = layer.weights[0].values;
  Matrix producer = normal_matrix(4, 5, 1.0f, 4);
  layer.group.norm_weight = {};
  REQUIRE_THAT(make<Transform>({"smoothquant", nullptr})->apply(layer.group, host_backend().device()), Contains("no norm"));
  layer.group.producer.push_back({"blk.0.attn_v.weight", producer.view(), {}, nullptr});
  layer.group.producer_row = {0, 1, 2, 3};
  REQUIRE_THAT(make<Transform>(spec_of("smoothquant", {{"folded_into", "norms"}}))->apply(layer.group, host_backend().device()), Contains("no norm"));
  REQUIRE(layer.weights[0].values == before);
  REQUIRE_THAT(make<Transform>({"smoothquant", nullptr})->apply(layer.group, host_backend().device()), Contains("largest input 80 to"));
  REQUIRE(layer.weights[0].values != before);
}
