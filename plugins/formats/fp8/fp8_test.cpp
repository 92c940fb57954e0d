// What is particular to fp8: rounding as torch and ml_dtypes round, the edges of its range, its scales, and inputs in 8 bits.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "patchbay/fp8.h"
#include "patchbay/half.h"
#include "patchbay/rounded_inputs.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

std::shared_ptr<WeightFormat> fp8(const std::vector<std::pair<std::string, std::string>>& values) {
  return make<WeightFormat>(spec_of("fp8", values));
}
const nlohmann::json& golden() {
  static const auto json = nlohmann::json::parse(read_file(source_path("tests/golden/eight_bits/eight_bits.json")));
  return json;
}
Matrix matrix_of(const nlohmann::json& values, std::int64_t rows) {
  Matrix m(rows, static_cast<std::int64_t>(values.size()) / rows);
  for (std::size_t i = 0; i < values.size(); ++i) m.values[i] = values[i].get<float>();
  return m;
}
float scale_of(const PackedWeight& w, std::int64_t i = 0) { return static_cast<const float*>(w.parts[1].data)[i]; }

Matrix product(const WeightFormat& format, const PackedWeight& w, const Matrix& x, ActivationMode mode = ActivationMode::fp32) {
  Matrix y(x.rows, w.rows);
  Activation input(mode, host_backend().ops());
  input.reset(x.view());
  format.prepare(w, host_backend().ops(), mode)->run(input, y.view());
  return y;
}

}  // namespace

TEST_CASE("fp8: every fp16 number is rounded, and every code read, as torch and ml_dtypes do") {
  for (const auto& [name, format] : {std::pair{"e4m3", kE4M3}, {"e5m2", kE5M2}}) {
    std::uint64_t digest = 0xCBF29CE484222325;  // FNV-1a
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const unsigned char code = encode_fp8(to_float(Half{static_cast<std::uint16_t>(bits)}), format);
      digest = (digest ^ code) * 0x100000001B3;
    }
    CHECK(fmt::format("{:016x}", digest) == golden().at("halves").at(name).at("fnv").get<std::string>());
    for (int code = 0; code < 256; ++code) {
      const auto& value = golden().at("halves").at(name).at("values").at(code);
      const float decoded = decode_fp8(static_cast<unsigned char>(code), format);
      if (value.is_null()) CHECK_FALSE(std::isfinite(decoded));
      else CHECK(decoded == value.get<float>());
    }
  }
}

TEST_CASE("fp8: a product with inputs in 8 bits is what torch makes of the same numbers") {
  for (const char* variant : {"e4m3", "e5m2"}) {
    const auto& p = golden().at("products").at(variant);
    const auto format = fp8({{"variant", variant}, {"activations", "token"}});
    const Matrix w = matrix_of(p.at("w"), 5), x = matrix_of(p.at("x"), 3), expected = matrix_of(p.at("y"), 3);
    Matrix decoded(5, w.cols);
    const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
    for (ActivationMode mode : {ActivationMode::fp32, ActivationMode::q8}) {  // the format's own rounding counts, in either
      const Matrix y = product(*format, packed, x, mode);
      for (std::size_t i = 0; i < y.values.size(); ++i) CHECK(y.values[i] == Approx(expected.values[i]).epsilon(2e-6).margin(1e-5));
    }
  }
}

TEST_CASE("fp8: the edges of e4m3: nothing saturates to NaN, and every scale is finite and not 0 (Q09)") {
  for (const char* scales : {"tensor", "channel", "group"}) {
    const auto format = fp8({{"scales", scales}, {"group_size", "8"}});
    const auto decoded = [&](std::vector<float> row, PackedWeight* kept = nullptr) {
      Matrix w(1, 8), result(1, 8);
      row.resize(8);
      w.values = row;
      const auto packed = round_to_format(*format, w, host_backend().device(), result);
      if (kept) *kept = packed;
      CHECK((std::isfinite(scale_of(packed)) && scale_of(packed) > 0));
      return result.values;
    };
    CHECK(decoded({}) == std::vector<float>(8, 0.0f));
    CHECK(decoded({1e9f, 1e3f})[0] == Approx(1e9f).epsilon(1e-6));
    for (float tiny : {1e-38f, 1e-42f}) {
      for (float value : decoded({tiny, -tiny})) CHECK(std::fabs(value) <= 1.1f * tiny);
    }
    CHECK(decoded({1e-38f})[0] == Approx(1e-38f).epsilon(0.07));
    // The scale is 1: codes are the numbers themselves.
    CHECK(decoded({448, -448, 449.0f * 448 / 449, -0.0f, 17, 0.001f})[0] == 448);
    PackedWeight packed;
    const auto zero = decoded({448, -0.0f}, &packed);
    CHECK(scale_of(packed) == 1.0f);
    CHECK((zero[1] == 0 && std::signbit(zero[1])));
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Matrix w(1, 8);
      w.values[3] = bad;
      CHECK_THROWS_WITH(format->fit(w.view(), {}), Catch::Contains("row 0") && Catch::Contains("no code"));
    }
  }
  // Past the grid's end, as a quantizer that moves weights may ask: the largest number, whatever would round to NaN.
  Matrix w(1, 8);
  w.values[0] = 448;
  const auto grid = fp8({})->fit(w.view(), {});
  for (const auto& [value, expected] : {std::pair{449.0f, 448.0f}, {464, 448}, {465, 448}, {480, 448}, {-1e30f, -448}, {-0.0f, -0.0f}}) {
    std::int32_t code = 0;
    float decoded = 1;
    grid->round(0, {&value, {1}}, {&code, {1}}, {&decoded, {1}});
    CHECK(decoded == expected);
  }
}

TEST_CASE("fp8: bits per weight are codes and scales, no more") {
  CHECK(fp8({{"scales", "tensor"}})->packed_bytes(576, 1536) == 576 * 1536 + 4);
  CHECK(fp8({})->packed_bytes(576, 1536) == 576 * 1536 + 4 * 576);
  CHECK(fp8({{"scales", "group"}})->bits_per_weight(576, 1536) == 8 + 32 / 128.0);
  CHECK(fp8({{"activations", "static"}})->packed_bytes(576, 1536) == 576 * 1536 + 4 * 577);
  CHECK_THROWS_WITH(fp8({{"scales", "group"}})->layout(4, 576), Catch::Contains("groups of 128 do not divide a row of 576"));
}

TEST_CASE("fp8: searched scales err less, and rows do not share them") {
  const Matrix w = normal_matrix(6, 128, 0.05f, 3);
  for (const char* scales : {"tensor", "channel", "group"}) {
    const auto format = fp8({{"scales", scales}, {"group_size", "64"}});
    const auto error = [&](bool search) {
      double sum = 0;
      for (std::int64_t first = 0; first < 128; first += format->tile_columns(128)) {
        const View<const float, 2> tile(w.values.data() + first, {6, format->tile_columns(128)}, {128, 1});
        const auto grid = format->fit(tile, {{}, search});
        for (std::int64_t c = 0; c < tile.shape[1]; ++c) {
          std::vector<float> values(6), decoded(6);
          std::vector<std::int32_t> codes(6);
          for (int r = 0; r < 6; ++r) values[r] = tile(r, c);
          grid->round(c, {values.data(), {6}}, {codes.data(), {6}}, {decoded.data(), {6}});
          for (int r = 0; r < 6; ++r) sum += (values[r] - decoded[r]) * (values[r] - decoded[r]);
        }
      }
      return sum;
    };
    CHECK(error(true) < error(false));
  }
}

TEST_CASE("fp8: a static scale comes from the largest input that calibration saw, and cuts what is past it") {
  const auto format = fp8({{"activations", "static"}});
  CHECK(format->needs().moments);
  CHECK_FALSE(fp8({})->needs().any());
  const Matrix w = normal_matrix(4, 32, 0.1f, 5);
  std::vector<float> largest(32, 0.5f);
  largest[7] = 2.0f;
  Statistics statistics;
  statistics.tokens = 9;
  statistics.largest = {largest.data(), {32}};
  const auto fitted = format->fitted_to(w.view(), statistics);
  Matrix decoded(4, 32);
  const auto packed = round_to_format(*fitted, w, host_backend().device(), decoded);
  const auto rounding_of = [&](const PackedWeight& packed_weight) {  // read by the format of the settings, as from a file
    return *input_rounding_of(format->prepare(packed_weight, host_backend().ops(), ActivationMode::fp32).get());
  };
  CHECK(rounding_of(packed) == RowRounding{DType::f8_e4m3, RowRounding::Scale::given, 2.0f / 448});
  Matrix x(1, 32), at_end(1, 32);
  x.values[7] = 5.0f;
  at_end.values[7] = 2.0f;
  CHECK(product(*format, packed, x).values == product(*format, packed, at_end).values);
  // Nothing came by: token by token, and the record says so.
  CHECK(format->fitted_to(w.view(), {}) == nullptr);
  const auto unseen = round_to_format(*format, w, host_backend().device(), decoded);
  CHECK(rounding_of(unseen).scale == RowRounding::Scale::token);
  CHECK_THAT(unseen.note, Catch::Contains("no calibration token"));
}

TEST_CASE("fp8: one scale for all tokens depends on them, and per token on nothing else") {
  const Matrix w = normal_matrix(4, 32, 0.1f, 5);
  Matrix x = normal_matrix(2, 32, 1.0f, 6), first(1, 32), decoded(4, 32);
  for (int c = 0; c < 32; ++c) x.at(1, c) *= 100;
  std::copy_n(x.values.begin(), 32, first.values.begin());
  for (const char* activations : {"token", "tensor"}) {
    const auto format = fp8({{"activations", activations}});
    const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
    const auto both = product(*format, packed, x).values, alone = product(*format, packed, first).values;
    CHECK(std::equal(alone.begin(), alone.end(), both.begin()) == (std::string(activations) == "token"));
  }
}
