// What is particular to scale_search: no worse than ggml's quantisers in any block format, and importance that is zero spoils nothing.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "patchbay/half.h"
#include "patchbay/quantizer.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

/// The bytes of a row of hexadecimal digits as numbers.
template <class T>
std::vector<T> numbers(const std::string& hex) {
  std::vector<T> values(hex.size() / 2 / sizeof(T));
  auto* bytes = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < hex.size() / 2; ++i) bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return values;
}

Matrix searched(const WeightFormat& format, const Matrix& w, const std::vector<float>& importance) {
  const auto quantizer = make<Quantizer>(spec_of("scale_search", {{"importance", importance.empty() ? "none" : "calibration"}}));
  Statistics statistics;
  statistics.tokens = 1;
  if (!importance.empty()) statistics.second_moment = {importance.data(), {w.cols}};
  PackedWeight packed = format.allocate("w", w.rows, w.cols, host_backend().device());
  quantizer->quantize(w.view(), statistics, format, host_backend().device(), packed);
  Matrix decoded(w.rows, w.cols);
  format.decode(packed, 0, decoded.view());
  return decoded;
}

/// sqrt(sum of importance (w - w')^2 / sum of importance w^2), as tests/golden/gguf_search counts it.
double relative_rmse(const Matrix& w, const Matrix& decoded, const std::vector<float>& importance) {
  double errors = 0, squares = 0;
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const double weight = importance.empty() ? 1.0 : importance[c], error = w.at(r, c) - decoded.at(r, c);
      errors += weight * error * error;
      squares += weight * w.at(r, c) * w.at(r, c);
    }
  return std::sqrt(errors / squares);
}

/// Past fp16's 65504: the number itself, a group's lowest number where it is stored (q4_1, q5_1), or its scale, a million over 15 or less.
bool cannot_hold_a_million(const std::string& label) {
  const auto is = [&](const char* begin) { return label.starts_with(begin); };
  return label == "fp16" || label == "noise/0/fp16" || label == "q4_0" || label == "q4_1" || label == "q5_1" || label == "q2_k" || label == "gguf_mix/q2_k" ||
         is("int_grouped/b2/") || is("int_grouped/b4/") || is("salient/");
}

}  // namespace

TEST_CASE("scale_search: in every block format no worse than ggml's quantisers, without and with importance") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/gguf_search/errors.json")));
  const std::int64_t columns = golden.at("columns");
  const auto halves = numbers<Half>(golden.at("weights"));
  const auto importance = numbers<float>(golden.at("importance"));
  Matrix w(static_cast<std::int64_t>(halves.size()) / columns, columns);
  for (std::size_t i = 0; i < halves.size(); ++i) w.values[i] = to_float(halves[i]);
  REQUIRE(golden.at("errors").size() == 12);
  for (const auto& [name, theirs] : golden.at("errors").items()) {
    INFO(name);
    const auto format = make<WeightFormat>({name, nullptr});
    CHECK(relative_rmse(w, searched(*format, w, {}), {}) <= 1.02 * theirs.at("plain").get<double>());
    CHECK(relative_rmse(w, searched(*format, w, importance), importance) <= 1.02 * theirs.at("weighted").get<double>());
  }
}

TEST_CASE("scale_search: an importance of zero on some columns or on all is no worse than none, and nothing becomes NaN (Q06)") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    const Matrix w = normal_matrix(8, 256, 0.05f, 41);
    const Matrix plain = searched(*format, w, {});
    std::vector<float> importance(256, 0.0f);
    REQUIRE(searched(*format, w, importance).values == plain.values);  // says nothing of any column
    for (int c = 0; c < 256; ++c) importance[c] = c >= 96 && c < 128 ? 0.0f : 0.5f + 0.01f * static_cast<float>(c);
    const Matrix weighted = searched(*format, w, importance);
    for (float value : weighted.values) REQUIRE(std::isfinite(value));
    REQUIRE(relative_rmse(w, weighted, importance) <= relative_rmse(w, plain, importance) * 1.005);  // a search, and no proof
    std::vector<float> forgotten(256);
    for (int c = 96; c < 128; ++c) forgotten[c] = 1.0f;
    CHECK(relative_rmse(w, weighted, forgotten) <= 1.5 * relative_rmse(w, plain, forgotten));
  }
}

TEST_CASE("scale_search: one weight a million times the others leaves every format no worse than without a search; those refuse it that cannot hold it") {
  int refused = 0;
  for (const auto& format : all_formats()) {
    INFO(format->label());
    Matrix w = normal_matrix(8, 256, 1.0f, 43);
    for (std::int64_t r = 0; r < w.rows; ++r) w.at(r, r * 37 % 256) = r % 2 == 0 ? 1e6f : -1e6f;
    Matrix plain(8, 256);
    if (cannot_hold_a_million(format->label())) {
      REQUIRE_THROWS_WITH(round_to_format(*format, w, host_backend().device(), plain), Catch::Contains("65504"));
      ++refused;
      continue;
    }
    round_to_format(*format, w, host_backend().device(), plain);
    const Matrix found = searched(*format, w, {});
    for (float value : found.values) REQUIRE(std::isfinite(value));
    CHECK(relative_rmse(w, found, {}) <= relative_rmse(w, plain, {}) * 1.000001);
    std::vector<float> small(256, 1.0f);  // and of the others
    for (std::int64_t r = 0; r < w.rows; ++r) small[r * 37 % 256] = 0.0f;
    CHECK(relative_rmse(w, found, small) <= relative_rmse(w, plain, small) * 1.000001);
  }
  CHECK(refused > 0);
}

TEST_CASE("scale_search: where no token came by, all columns are alike; an importance that is no number is refused") {
  const auto format = make<WeightFormat>({"q4_k", nullptr});
  const auto quantizer = make<Quantizer>(spec_of("scale_search", {{"importance", "calibration"}}));
  REQUIRE(quantizer->needs().moments);
  REQUIRE_FALSE(make<Quantizer>({"scale_search", nullptr})->needs().any());
  const Matrix w = normal_matrix(4, 256, 0.05f, 42);
  PackedWeight packed = format->allocate("w", w.rows, w.cols, host_backend().device());
  quantizer->quantize(w.view(), {}, *format, host_backend().device(), packed);  // an expert that was never chosen
  Matrix decoded(w.rows, w.cols);
  format->decode(packed, 0, decoded.view());
  REQUIRE(decoded.values == searched(*format, w, {}).values);
  std::vector<float> importance(256, 1.0f);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f}) {
    importance[70] = bad;
    REQUIRE_THROWS_WITH(searched(*format, w, importance), Catch::Contains("column 70") && Catch::Contains("importance"));
  }
}
