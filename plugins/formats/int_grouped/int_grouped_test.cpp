// What is particular to int_grouped: its bits, its half-step bound, its layout, groups of any size.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <utility>

#include "patchbay/half.h"
#include "patchbay/quantizer.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

std::shared_ptr<WeightFormat> int_grouped(const std::vector<std::pair<std::string, std::string>>& settings) {
  return make<WeightFormat>(spec_of("int_grouped", settings));
}
/// A weight whose columns are packed in `order`, and what it decodes to.
PackedWeight packed_in_order(const WeightFormat& format, const Matrix& w, const std::vector<std::int32_t>& order, Matrix& decoded) {
  Matrix moved(w.rows, w.cols), promised(w.rows, w.cols);
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t j = 0; j < w.cols; ++j) moved.at(r, j) = w.at(r, order[j]);
  PackedWeight packed = round_to_format(format, moved, host_backend().device(), promised);
  REQUIRE(format.store_column_order(View<const std::int32_t, 1>(order.data(), {w.cols}), packed));
  format.decode(packed, 0, decoded.view());
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t j = 0; j < w.cols; ++j) REQUIRE(decoded.at(r, order[j]) == promised.at(r, j));
  return packed;
}
std::vector<std::int32_t> shuffled(std::int64_t cols) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
  for (std::int64_t j = 0; j < cols; ++j) order[j] = static_cast<std::int32_t>(j);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  return order;
}
/// What x(T,C) w^T must be, in double, and what its terms add up to without their signs.
std::pair<double, double> dot(View<const float, 2> x, const Matrix& w, std::int64_t t, std::int64_t r) {
  std::pair<double, double> sums;
  for (std::int64_t c = 0; c < w.cols; ++c) {
    const double term = static_cast<double>(x(t, c)) * w.at(r, c);
    sums.first += term;
    sums.second += std::fabs(term);
  }
  return sums;
}

}  // namespace

TEST_CASE("int_grouped: bits per weight are codes, scales and zero points, no more") {
  REQUIRE(int_grouped({{"bits", "4"}, {"group_size", "64"}})->bits_per_weight(576, 1536) == 4 + (16 + 4) / 64.0);
  REQUIRE(int_grouped({{"bits", "4"}, {"group_size", "64"}, {"symmetric", "true"}})->bits_per_weight(576, 1536) == 4 + 16 / 64.0);
  REQUIRE(int_grouped({{"bits", "3"}, {"group_size", "32"}})->bits_per_weight(576, 1536) == 3 + (16 + 3) / 32.0);
  REQUIRE(int_grouped({{"bits", "5"}, {"group_size", "192"}})->bits_per_weight(576, 1536) == 5 + (16 + 5) / 192.0);
  REQUIRE(int_grouped({{"bits", "8"}, {"group_size", "-1"}})->bits_per_weight(576, 1536) == 8 + (16 + 8) / 1536.0);
  REQUIRE(int_grouped({{"bits", "4"}, {"column_order", "true"}})->bits_per_weight(576, 1536) == 4 + (16 + 4) / 64.0 + 16 / 576.0);
}

TEST_CASE("int_grouped: no weight is further than half a step from its code") {
  constexpr std::int64_t kRows = 5, kCols = 576;
  for (const char* bits : {"2", "3", "4", "5", "6", "7", "8"}) {
    for (const char* symmetric : {"false", "true"}) {
      for (const char* group : {"64", "48", "9", "1", "-1"}) {
        const auto format = int_grouped({{"bits", bits}, {"symmetric", symmetric}, {"group_size", group}});
        const std::int64_t width = format->tile_columns(kCols);
        for (const auto& [kind, w] : weights_of_many_kinds(kRows, kCols)) {
          INFO(format->label() << ", " << kind);
          Matrix promised(kRows, kCols), decoded(kRows, kCols);
          const auto packed = round_to_format(*format, w, host_backend().device(), promised);
          format->decode(packed, 0, decoded.view());
          REQUIRE(promised.values == decoded.values);
          const auto scales = packed.parts[1].as<Half, 2>();
          for (std::int64_t r = 0; r < kRows; ++r)
            for (std::int64_t c = 0; c < kCols; ++c) {
              const float step = to_float(scales(r, c / width));
              REQUIRE(std::fabs(w.at(r, c) - decoded.at(r, c)) <= 0.5f * step * 1.0001f);
            }
        }
      }
    }
  }
}

TEST_CASE("int_grouped: codes lie lowest bits first, eight 3-bit codes in three bytes") {
  const auto format = int_grouped({{"bits", "3"}, {"group_size", "8"}, {"symmetric", "true"}});
  Matrix w(1, 8), decoded(1, 8);
  for (int i = 0; i < 8; ++i) w.values[i] = static_cast<float>(i) - 3.5f;  // steps of 1 around 0: codes 0..7, up to ties
  const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
  const auto bytes = packed.parts[0].as<std::uint8_t, 3>();
  const int word = bytes(0, 0, 0) | bytes(0, 0, 1) << 8 | bytes(0, 0, 2) << 16;
  for (int i = 0; i < 8; ++i) REQUIRE(static_cast<float>((word >> 3 * i & 7) - 4) == decoded.values[i]);
}

TEST_CASE("int_grouped: a group that does not divide a row is refused, naming those that do") {
  const auto format = int_grouped({{"group_size", "128"}});
  REQUIRE_THROWS_WITH(format->layout(4, 576), Catch::Contains("groups of 128 do not divide a row of 576") &&
                                                  Catch::Contains("32, 64, 96, 192, 288, 576, -1"));
  REQUIRE_THROWS_WITH(int_grouped({{"group_size", "0"}}), Catch::Contains("group_size"));
}

TEST_CASE("int_grouped: groups that are no multiple of 32 are decoded, and the path says so") {
  Matrix w = normal_matrix(4, 96, 0.1f, 1), decoded(4, 96);
  const auto format = int_grouped({{"group_size", "48"}});
  const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
  REQUIRE_THAT(format->prepare(packed, host_backend().ops(), ActivationMode::q8)->path(), Catch::StartsWith("int_grouped/b4/g48:decode/"));
  const auto forced = int_grouped({{"group_size", "48"}, {"kernel", "integer"}});
  REQUIRE_THROWS_WITH(forced->prepare(packed, host_backend().ops(), ActivationMode::q8), Catch::Contains("32"));
}

TEST_CASE("int_grouped: a zero point of 0 stays 0, and one of the last code too") {
  for (const char* bits : {"2", "3", "4", "7", "8"}) {  // GPTQ's first layout stores zero - 1, in which 0 becomes the last code
    for (const float sign : {1.0f, -1.0f}) {
      INFO(bits << " bits, sign " << sign);
      const auto format = int_grouped({{"bits", bits}, {"group_size", "32"}});
      Matrix w = normal_matrix(9, 64, 0.05f, 3), decoded(9, 64);
      for (float& value : w.values) value = sign * std::fabs(value);
      round_to_format(*format, w, host_backend().device(), decoded);
      for (std::int64_t r = 0; r < w.rows; ++r)
        for (std::int64_t first = 0; first < w.cols; first += 32) {
          float largest = 0;
          for (std::int64_t c = first; c < first + 32; ++c) largest = std::max(largest, std::fabs(w.at(r, c)));
          const float step = largest / static_cast<float>((1 << std::stoi(bits)) - 1) * 1.001f;
          for (std::int64_t c = first; c < first + 32; ++c) REQUIRE(std::fabs(w.at(r, c) - decoded.at(r, c)) <= 0.5f * step);
        }
    }
  }
}

TEST_CASE("int_grouped: an order of columns is undone by decode and by every product") {
  constexpr std::int64_t kRows = 37, kTokens = 3;
  const auto order = shuffled(192);
  const Matrix w = normal_matrix(kRows, 192, 0.05f, 5), x = normal_matrix(kTokens, 192, 1.0f, 6);
  for (const char* symmetric : {"false", "true"}) {
    for (const char* kernel : {"decode", "integer"}) {
      const auto format = int_grouped({{"column_order", "true"}, {"symmetric", symmetric}, {"kernel", kernel}});
      INFO(format->label() << " " << kernel);
      Matrix decoded(kRows, 192), y(kTokens, kRows);
      const auto packed = packed_in_order(*format, w, order, decoded);
      for (const ActivationMode mode : {ActivationMode::fp32, ActivationMode::q8}) {
        if (mode == ActivationMode::fp32 && kernel == std::string("integer")) continue;
        const auto product = format->prepare(packed, host_backend().ops(), mode);
        REQUIRE_THAT(product->path(), Catch::StartsWith(format->label() + ":" + kernel + "/"));
        Activation input(mode, host_backend().ops());
        input.reset(x.view());
        product->run(input, y.view());
        // decode sees the input as everybody does; integer sees it rounded in blocks of its own columns
        Matrix seen = x;
        if (kernel == std::string("integer")) {
          Matrix moved(kTokens, 192);
          for (std::int64_t t = 0; t < kTokens; ++t)
            for (std::int64_t j = 0; j < 192; ++j) moved.at(t, j) = x.at(t, order[j]);
          Activation rounded(mode, host_backend().ops());
          rounded.reset(moved.view());
          for (std::int64_t t = 0; t < kTokens; ++t)
            for (std::int64_t j = 0; j < 192; ++j) seen.at(t, order[j]) = rounded.values().as<const float, 2>()(t, j);
        } else {
          for (std::int64_t i = 0; i < kTokens * 192; ++i) seen.values[i] = input.values().as<const float, 2>()(i / 192, i % 192);
        }
        for (std::int64_t t = 0; t < kTokens; ++t)
          for (std::int64_t r = 0; r < kRows; ++r) {
            const auto [expected, size] = dot(std::as_const(seen).view(), decoded, t, r);
            REQUIRE(std::fabs(y.at(t, r) - expected) <= 1e-5 * size);
          }
      }
    }
  }
}

TEST_CASE("int_grouped: on an emulated GPU an order of columns is undone, two weights of two orders after each other") {
  const auto simt = make<Backend>(spec_of("simt", {{"checked", "true"}}));
  Device& device = simt->device();
  const Matrix w = normal_matrix(21, 192, 0.05f, 5);
  Matrix x = normal_matrix(5, 192, 1.0f, 6);
  std::vector<Half> bits(x.values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) x.values[i] = to_float(bits[i] = to_half(x.values[i]));
  const Buffer x_there = device.allocate(5 * 192 * 2), y_there = device.allocate(5 * 21 * 4);
  device.copy(View<Half, 2>(bits.data(), {5, 192}), x_there.tensor(DType::f16, {5, 192}));
  Activation input(ActivationMode::fp32, simt->ops());
  input.reset(x_there.tensor(DType::f16, {5, 192}));
  const auto backwards = [] {
    std::vector<std::int32_t> order;
    for (std::int32_t j = 191; j >= 0; --j) order.push_back(j);
    return order;
  }();
  for (const auto& order : {shuffled(192), backwards}) {
    const auto format = int_grouped({{"column_order", "true"}, {"kernel", "tensor_core"}});
    Matrix decoded(21, 192), y(5, 21);
    const auto product = format->prepare(packed_in_order(*format, w, order, decoded), simt->ops(), ActivationMode::fp32);
    REQUIRE_FALSE(product->takes_rows());
    product->run(input, y_there.tensor(DType::f32, {5, 21}));
    device.copy(y_there.tensor(DType::f32, {5, 21}), y.view());
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t r = 0; r < 21; ++r) {
        const auto [expected, size] = dot(std::as_const(x).view(), decoded, t, r);
        REQUIRE(std::fabs(y.at(t, r) - expected) <= 1e-3 * size);  // weights rounded to fp16
      }
  }
}

TEST_CASE("int_grouped: an order that is none is refused, and none is kept unless asked for") {
  const auto format = int_grouped({{"column_order", "true"}});
  PackedWeight packed = format->allocate("w", 4, 64, host_backend().device());
  auto order = shuffled(64);
  const auto stored = [&] { return format->store_column_order(View<const std::int32_t, 1>(order.data(), {64}), packed); };
  REQUIRE(stored());
  REQUIRE_FALSE(int_grouped({})->store_column_order(View<const std::int32_t, 1>(order.data(), {64}), packed));
  for (const std::int32_t bad : {order[9], -1, 64}) {
    order[3] = bad;
    REQUIRE_THROWS_WITH(stored(), Catch::Contains("column " + std::to_string(bad) + " of 64"));
  }
  REQUIRE_THROWS_WITH(format->layout(4, 1 << 17), Catch::Contains("131072 columns"));
}

TEST_CASE("int_grouped: a search does not give up columns that calibration never saw") {
  // A quarter of each group has no importance and weights three times as large: they widen the grid of those that count.
  Matrix w = normal_matrix(32, 256, 0.05f, 8);
  std::vector<float> importance(256, 1.0f);
  for (std::int64_t c = 0; c < 256; ++c) {
    if (c % 4 != 0) continue;
    importance[c] = 0.0f;
    for (std::int64_t r = 0; r < w.rows; ++r) w.at(r, c) *= 3;
  }
  for (const char* bits : {"2", "3", "4", "8"}) {
    const auto format = int_grouped({{"bits", bits}, {"group_size", "64"}});
    Matrix plain(32, 256), searched(32, 256);
    round_to_format(*format, w, host_backend().device(), plain);
    PackedWeight packed = format->allocate("w", 32, 256, host_backend().device());
    const FitOptions options{.importance = {importance.data(), {256}}, .search = true};
    round_to_nearest(w.view(), options, *format, host_backend().device(), packed);
    format->decode(packed, 0, searched.view());
    double before = 0, after = 0, unseen_before = 0, unseen_after = 0;
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t c = 0; c < 256; ++c) {
        const double weight = w.at(r, c), was = weight - plain.at(r, c), is = weight - searched.at(r, c);
        (importance[c] > 0 ? before : unseen_before) += was * was;
        (importance[c] > 0 ? after : unseen_after) += is * is;
      }
    INFO(bits << " bits: seen " << after / before << " of the error without search, unseen " << unseen_after / unseen_before);
    CHECK(after < 0.99 * before);
    CHECK(std::sqrt(unseen_after) <= 3 * std::sqrt(unseen_before));
  }
}
