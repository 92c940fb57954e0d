// What is particular to w8a8: integer sums are exact whatever multiplies them, and are what torch makes of the same numbers.
#include <catch2/catch.hpp>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "patchbay/half.h"
#include "patchbay/rounded_inputs.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

std::shared_ptr<WeightFormat> w8a8(const std::vector<std::pair<std::string, std::string>>& values) {
  return make<WeightFormat>(spec_of("w8a8", values));
}
Backend& cpu(const std::string& kernel) {
  static std::map<std::string, std::shared_ptr<Backend>> made;
  auto& backend = made[kernel];
  if (!backend) backend = make<Backend>(spec_of("cpu", {{"kernel", kernel}}));
  return *backend;
}
std::vector<std::string> kernel_sets() {
  std::vector<std::string> names;
  const auto params = Registry::instance().describe(Registry::instance().find("backends", "cpu"));
  for (const KernelInfo& kernel : params.front().kernels)
    if (!kernel.available || kernel.available()) names.emplace_back(kernel.name);
  return names;
}
Matrix product(const WeightFormat& format, const PackedWeight& w, const Matrix& x, Backend& backend, ActivationMode mode = ActivationMode::fp32) {
  Matrix y(x.rows, w.rows);
  Activation input(mode, backend.ops());
  input.reset(x.view());
  format.prepare(w, backend.ops(), mode)->run(input, y.view());
  return y;
}

}  // namespace

TEST_CASE("w8a8: a product is what torch makes of the same numbers") {
  const auto p = nlohmann::json::parse(read_file(source_path("tests/golden/eight_bits/eight_bits.json"))).at("products").at("int8");
  const auto matrix_of = [&](const char* name, std::int64_t rows) {
    Matrix m(rows, static_cast<std::int64_t>(p.at(name).size()) / rows);
    for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = p.at(name)[i].get<float>();
    return m;
  };
  const Matrix w = matrix_of("w", 5), x = matrix_of("x", 3), expected = matrix_of("y", 3);
  const auto format = w8a8({});
  Matrix decoded(5, w.cols);
  const auto packed = round_to_format(*format, w, cpu("plain").device(), decoded);
  for (ActivationMode mode : {ActivationMode::fp32, ActivationMode::q8})  // the format's own rounding counts, in either
    for (const std::string& set : kernel_sets()) {
      const Matrix y = product(*format, packed, x, cpu(set), mode);
      for (std::size_t i = 0; i < y.values.size(); ++i) CHECK(y.values[i] == Approx(expected.values[i]).epsilon(3e-7));
    }
}

TEST_CASE("w8a8: every kernel set, and a GPU's kernels, give the same bits") {
  const auto simt = make<Backend>(spec_of("simt", {{"checked", "true"}}));
  for (const auto& [tokens, rows, cols] : {std::array{1, 5, 16}, std::array{6, 37, 1616}, std::array{17, 70, 96}}) {
    Matrix w = normal_matrix(rows, cols, 0.05f, 1), x = normal_matrix(tokens, cols, 1.0f, 2), decoded(rows, cols);
    for (float& value : w.values) value = value > 0 ? 1.0f : -1.0f;  // codes of 127: sums past 2^24, which floats would round
    for (int c = 0; c < cols; ++c) x.values[c] = w.values[c] * 3;
    const auto format = w8a8({});
    const auto packed = round_to_format(*format, w, cpu("plain").device(), decoded);
    const auto plain = product(*format, packed, x, cpu("plain")).values;
    CHECK(plain[0] == static_cast<float>(127 * 127 * cols) * ((1.0f / 127) * (3.0f / 127)));
    for (const std::string& set : kernel_sets()) CHECK(product(*format, packed, x, cpu(set)).values == plain);
    // On fp16 inputs, since a GPU has no others.
    std::vector<Half> halves(x.values.size());
    for (std::size_t i = 0; i < halves.size(); ++i) x.values[i] = to_float(halves[i] = to_half(x.values[i]));
    const auto of_halves = product(*format, packed, x, cpu("plain")).values;
    Device& device = simt->device();
    const Buffer there = device.allocate(tokens * cols * 2), out = device.allocate(tokens * rows * 4);
    const TensorRef input = there.tensor(DType::f16, {tokens, cols}), y = out.tensor(DType::f32, {tokens, rows});
    device.copy(View<Half, 2>(halves.data(), {tokens, cols}), input);
    for (const char* kernel : {"naive", "tensor_core", "gemv"}) {
      const auto on_gpu = w8a8({{"kernel", kernel}})->prepare(packed, simt->ops(), ActivationMode::fp32);
      Activation activation(ActivationMode::fp32, simt->ops());
      activation.reset(input);
      on_gpu->run(activation, y);
      Matrix result(tokens, rows);
      device.copy(y, result.view());
      INFO(kernel);
      CHECK(result.values == of_halves);
    }
  }
}

TEST_CASE("w8a8: rows of any length, and no weight further than half a step from its code") {
  for (const char* scales : {"tensor", "channel"})
    for (int cols : {1, 31, 33, 100}) {
      const auto format = w8a8({{"scales", scales}});
      for (const auto& [kind, w] : weights_of_many_kinds(5, cols)) {
        INFO(format->label() << ", " << kind << ", " << cols);
        Matrix decoded(5, cols), x = normal_matrix(3, cols, 1.0f, 4);
        const auto packed = round_to_format(*format, w, cpu("plain").device(), decoded);
        const auto steps = packed.parts[1].as<const float, 1>();
        for (int r = 0; r < 5; ++r)
          for (int c = 0; c < cols; ++c) {
            const float step = steps[steps.shape[0] == 1 ? 0 : r];
            REQUIRE((std::isfinite(step) && step > 0));
            REQUIRE(std::fabs(w.at(r, c) - decoded.at(r, c)) <= 0.5001f * step);
          }
        for (const std::string& set : kernel_sets())
          CHECK(product(*format, packed, x, cpu(set)).values == product(*format, packed, x, cpu("plain")).values);
      }
    }
}

TEST_CASE("w8a8: bits per weight are codes and scales, no more; rows whose sums pass 32 bits are refused") {
  CHECK(w8a8({})->packed_bytes(576, 1536) == 576 * 1536 + 4 * 576);
  CHECK(w8a8({{"scales", "tensor"}})->packed_bytes(576, 1536) == 576 * 1536 + 4);
  CHECK(w8a8({{"activations", "static"}})->packed_bytes(576, 1536) == 576 * 1536 + 4 * 577);
  const auto format = w8a8({});
  const auto packed = format->allocate("w", 1, 65537, cpu("plain").device());
  CHECK_THROWS_WITH(format->prepare(packed, cpu("plain").ops(), ActivationMode::fp32), Catch::Contains("65537") && Catch::Contains("32 bits"));
}

TEST_CASE("w8a8: a static scale is that of the largest input of calibration; an input that is not finite shows") {
  const auto format = w8a8({{"activations", "static"}});
  CHECK(format->needs().moments);
  const Matrix w = normal_matrix(4, 32, 0.1f, 5);
  const std::vector<float> largest(32, 2.54f);
  Statistics statistics;
  statistics.tokens = 9;
  statistics.largest = {largest.data(), {32}};
  Matrix decoded(4, 32), x(2, 32);
  const auto packed = round_to_format(*format->fitted_to(w.view(), statistics), w, cpu("plain").device(), decoded);
  CHECK(input_rounding_of(format->prepare(packed, cpu("plain").ops(), ActivationMode::fp32).get())->given == 2.54f / 127);
  x.values[7] = 5.0f;  // past the largest: cut to it
  x.values[32 + 3] = std::numeric_limits<float>::quiet_NaN();
  const auto y = product(*format, packed, x, cpu("plain"));
  CHECK(y.at(0, 0) == Approx(2.54f * decoded.at(0, 7)));
  CHECK(std::isnan(y.at(1, 0)));
}
