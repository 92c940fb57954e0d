// What is particular to AWQ: it finds what AutoAWQ finds, it never loses on its own measure in any format, and clamping keeps to its rules.
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
  Matrix x;
  std::shared_ptr<WeightFormat> format;
  std::vector<float> norm;
  LinearGroup group;
  Layer(std::vector<Matrix> w, Matrix inputs, std::shared_ptr<WeightFormat> f, const char* name = "blk.0.ffn_up.weight")
      : weights(std::move(w)), x(std::move(inputs)), format(std::move(f)), norm(static_cast<std::size_t>(x.cols), 1.0f) {
    for (Matrix& matrix : weights) group.consumers.push_back({name, matrix.view(), {}, format});
    group.norm_weight = {norm.data(), {x.cols}};
    group.statistics.tokens = x.rows;
    group.statistics.inputs = std::as_const(x).view();
  }
  Layer(const Layer&) = delete;
  std::string apply(const std::vector<std::pair<std::string, std::string>>& settings) { return make<Transform>(spec_of("awq", settings))->apply(group, host_backend().device()); }
  /// Squared error of the outputs once the weights are rounded, against those of `wanted`, which are scaled alike; of the parts of outputs that
  /// come from `width` columns each.
  double loss(const std::vector<Matrix>& wanted, std::int64_t width) const {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      Matrix rounded(weights[i].rows, weights[i].cols);
      round_to_format(*format, weights[i], host_backend().device(), rounded);
      for (std::int64_t t = 0; t < x.rows; ++t)
        for (std::int64_t r = 0; r < rounded.rows; ++r)
          for (std::int64_t first = 0; first < x.cols; first += width) {
            double error = 0;
            for (std::int64_t c = first; c < first + width; ++c) error += double{x.at(t, c)} * norm[c] * (double{rounded.at(r, c)} - wanted[i].at(r, c));
            sum += error * error;
          }
    }
    return sum;
  }
  double loss() const { return loss(weights, x.cols); }
};

/// Whether a row is rounded alike whatever the others are. Clamping is chosen row by row, so that it keeps its word only there.
bool rows_are_independent(const WeightFormat& format) {
  Matrix w = normal_matrix(8, 256, 0.05f, 9), half(4, 256), rounded(8, 256), half_rounded(4, 256);
  for (std::int64_t c = 0; c < 256; ++c) w.at(7, c) *= 100;
  std::copy_n(w.values.begin(), half.values.size(), half.values.begin());
  round_to_format(format, w, host_backend().device(), rounded);
  round_to_format(format, half, host_backend().device(), half_rounded);
  return std::equal(half_rounded.values.begin(), half_rounded.values.end(), rounded.values.begin());
}

/// Some channels are much larger than the rest.
Matrix inputs_with_outliers(std::int64_t rows, std::int64_t cols) {
  Matrix x = normal_matrix(rows, cols, 1.0f, 1);
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t c = 3; c < cols; c += 23) x.at(t, c) *= 25.0f;
  return x;
}

/// AutoAWQ's own grid with zero points, whose scales are in fp32: those of int_grouped are in fp16, so that of two bounds with nearly one error the
/// other may win.
class PlainGroups final : public WeightFormat {
 public:
  PlainGroups(int bits, std::int64_t group) : most_(static_cast<float>((1 << bits) - 1)), group_(group) {}
  struct Group { float scale, zero; };
  class Groups final : public Grid {
   public:
    float most = 0;
    std::vector<Group> rows;
    void round(std::int64_t, View<const float, 1> values, View<std::int32_t, 1> codes, View<float, 1> decoded) const override {
      for (std::int64_t r = 0; r < values.shape[0]; ++r) {
        const auto [scale, zero] = rows[r];
        codes[r] = static_cast<std::int32_t>(std::clamp(std::nearbyint(values[r] / scale) + zero, 0.0f, most));
        decoded[r] = (static_cast<float>(codes[r]) - zero) * scale;
      }
    }
  };
  std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions&) const override {
    auto grid = std::make_unique<Groups>();
    grid->most = most_;
    for (std::int64_t r = 0; r < tile.shape[0]; ++r) {
      float low = tile(r, 0), high = low;
      for (std::int64_t c = 0; c < tile.shape[1]; ++c) low = std::min(low, tile(r, c)), high = std::max(high, tile(r, c));
      const float scale = std::max(high - low, 1e-5f) / most_;
      grid->rows.push_back({scale, std::clamp(-std::nearbyint(low / scale), 0.0f, most_)});
    }
    return grid;
  }
  std::int64_t tile_columns(std::int64_t) const override { return group_; }
  std::vector<PartSpec> layout(std::int64_t, std::int64_t) const override { return {}; }
  void pack(const Grid&, std::int64_t, View<const std::int32_t, 2>, PackedWeight&) const override {}
  void decode(const PackedWeight&, std::int64_t, View<float, 2>) const override {}
  std::string label() const override { return "plain groups"; }

 private:
  float most_;
  std::int64_t group_;
};

}  // namespace

TEST_CASE("awq: factors and clamping bounds are those that AutoAWQ's own code finds") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/awq/cases.json")));
  for (const auto& expected : golden["cases"]) {
    std::vector<Matrix> weights;
    for (const auto& w : expected["weights_times_1024"]) weights.push_back(matrix_of(w, 1024));
    const std::string duo = expected["duo_scaling"].dump();
    const auto width = expected["group_size"].get<std::int64_t>();
    const auto format = std::make_shared<PlainGroups>(expected["bits"].get<int>(), width);
    Layer scaled(weights, matrix_of(expected["inputs_times_32"], 32), format), clamped(weights, scaled.x, format);
    INFO(expected["bits"] << " bits, groups of " << width << ", duo_scaling " << duo << ": " << scaled.apply({{"clip", "false"}, {"duo_scaling", duo}}));
    for (std::size_t c = 0; c < scaled.norm.size(); ++c) REQUIRE(1 / scaled.norm[c] == Approx(expected["factors"][c].get<float>()).epsilon(1e-4));
    clamped.apply({{"duo_scaling", duo}});
    int groups = 0, equal = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      for (std::int64_t r = 0; r < weights[i].rows; ++r)
        for (std::int64_t first = 0; first < weights[i].cols; first += width, ++groups) {
          float largest = 0;
          for (std::int64_t c = first; c < first + width; ++c) largest = std::max(largest, std::fabs(clamped.weights[i].at(r, c)));
          equal += largest == Approx(expected["bounds"][i][r][first / width].get<float>()).epsilon(1e-4);
        }
    INFO(equal << " of " << groups << " bounds are equal");
    REQUIRE(equal >= 0.98 * groups);  // numpy, too, chooses another of two nearly equal ones in 1%
  }
}

TEST_CASE("awq: in no format do the rounded layer's outputs lose by scales, nor those of a group by clamping, on the inputs of the search") {
  const std::vector<Matrix> original = {normal_matrix(12, 256, 0.05f, 5), normal_matrix(8, 256, 0.2f, 6)};
  for (const auto& format : all_formats()) {
    INFO(format->label());
    Layer plain(original, inputs_with_outliers(48, 256), format), scaled(original, plain.x, format), clamped(original, plain.x, format);
    scaled.apply({{"clip", "false"}});
    clamped.apply({});
    REQUIRE(scaled.loss() <= plain.loss() * 1.0001 + 1e-12);
    if (!rows_are_independent(*format)) continue;
    const std::int64_t width = format->tile_columns(256);
    REQUIRE(clamped.loss(scaled.weights, width) <= scaled.loss(scaled.weights, width) * 1.0001 + 1e-12);
  }
}

TEST_CASE("awq: at 3 bits the layer's error falls below half where a few channels are large") {
  const std::vector<Matrix> original = {normal_matrix(32, 128, 0.05f, 7)};
  Layer plain(original, inputs_with_outliers(64, 128), make<WeightFormat>(spec_of("int_grouped", {{"bits", "3"}, {"group_size", "64"}})));
  Layer scaled(original, plain.x, plain.format);
  REQUIRE_THAT(scaled.apply({{"clip", "false"}}), Contains("exponent") && Contains("of before"));
  REQUIRE(scaled.loss() < 0.5 * plain.loss());
  REQUIRE(1 / scaled.norm[3] > 2 * (1 / scaled.norm[4]));  // a large channel, and the one beside it
}

TEST_CASE("awq: one token with huge activations decides the factors, unless all inputs count alike") {
  const std::vector<Matrix> original = {normal_matrix(32, 128, 0.05f, 7)};
  const auto format = make<WeightFormat>(spec_of("int_grouped", {{"bits", "3"}, {"group_size", "64"}}));
  Matrix x = normal_matrix(256, 128, 1.0f, 8);
  for (std::int64_t c = 0; c < 128; ++c) x.at(0, c) *= c == 5 ? 3000.0f : 100.0f;
  Layer plain(original, x, format), summed(original, x, format), even(original, x, format);
  summed.apply({{"clip", "false"}});
  even.apply({{"clip", "false"}, {"even_inputs", "true"}});
  REQUIRE(1 / summed.norm[5] > 2 / even.norm[5]);
  for (Layer* layer : {&plain, &summed, &even})  // what the other tokens make of it
    for (std::int64_t c = 0; c < 128; ++c) layer->x.at(0, c) = 0;
  REQUIRE(even.loss() <= plain.loss() * 1.02);
  REQUIRE(even.loss() < summed.loss());
}

TEST_CASE("awq: q and k are not clamped, nothing is clamped to less than max_shrink leaves, and no weight grows by clamping") {
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const std::vector<Matrix> original = {normal_matrix(32, 128, 0.05f, 7)};
    const auto format = make<WeightFormat>(spec_of("int_grouped", {{"bits", "2"}, {"group_size", "64"}}));
    Layer scaled(original, inputs_with_outliers(64, 128), format, name), clamped(original, scaled.x, format, name);
    scaled.apply({{"clip", "false"}});
    const std::string line = clamped.apply({{"max_shrink", "0.3"}});
    bool any = false;
    for (std::size_t i = 0; i < scaled.weights[0].values.size(); ++i) {
      const float before = scaled.weights[0].values[i], after = clamped.weights[0].values[i];
      any = any || after != before;
      REQUIRE(std::fabs(after) <= std::fabs(before));
      REQUIRE(std::fabs(after) >= 0.7f * std::fabs(before));
    }
    REQUIRE(any == (std::string(name) == "blk.0.attn_v.weight"));
    REQUIRE((line.find("clamped") != std::string::npos) == any);
  }
}

TEST_CASE("awq: what cannot be scaled is left, and the line says why") {
  const std::vector<Matrix> original = {normal_matrix(8, 64, 1.0f, 3)};
  Layer layer(original, inputs_with_outliers(16, 64), make<WeightFormat>({"q4_0", nullptr})), exact(original, layer.x, make<WeightFormat>({"fp32", nullptr}));
  layer.group.norm_weight = {};
  REQUIRE_THAT(layer.apply({{"clip", "false"}}), Contains("nothing before it"));
  REQUIRE_THAT(exact.apply({}), Contains("no exponent lessens"));  // nothing is rounded
  layer.group.norm_weight = {layer.norm.data(), {64}};
  layer.group.statistics = {};
  REQUIRE_THAT(layer.apply({}), Contains("no calibration token"));
  REQUIRE(layer.weights[0].values == original[0].values);
  REQUIRE(exact.weights[0].values == original[0].values);
}
