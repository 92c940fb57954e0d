// What is particular to eetq: FasterTransformer's grid, and the one kind of format that it serves.
#include <catch2/catch.hpp>
#include <cmath>

#include "patchbay/half.h"
#include "patchbay/quantizer.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

PackedWeight packed(const Matrix& w, const WeightFormat& format) {
  PackedWeight out = format.allocate("w", w.rows, w.cols, host_backend().device());
  make<Quantizer>({"eetq", nullptr})->quantize(w.view(), {}, format, host_backend().device(), out);
  return out;
}

}  // namespace

TEST_CASE("eetq: the scale is the largest weight over 128, codes go from -128 to 127") {
  const auto format = make<WeightFormat>(spec_of("int_grouped", {{"bits", "8"}, {"group_size", "-1"}, {"symmetric", "true"}}));
  Matrix w = normal_matrix(6, 200, 0.05f, 71), decoded(6, 200);
  for (std::int64_t c = 0; c < w.cols; ++c) w.at(5, c) = 0;
  const PackedWeight out = packed(w, *format);
  format->decode(out, 0, decoded.view());
  for (std::int64_t r = 0; r < w.rows; ++r) {
    float largest = 0;
    for (std::int64_t c = 0; c < w.cols; ++c) largest = std::max(largest, std::fabs(w.at(r, c)));
    const float scale = to_float(out.parts[1].as<Half, 2>()(r, 0));
    CHECK(scale == Approx(largest / 128).epsilon(2e-3));
    CHECK(scale >= largest / 128 * 0.9999f);
    for (std::int64_t c = 0; c < w.cols; ++c)
      CHECK(decoded.at(r, c) == (scale > 0 ? scale * std::clamp(std::floor(w.at(r, c) / scale + 0.5f), -128.0f, 127.0f) : 0.0f));
  }
}

TEST_CASE("eetq: other formats are refused, saying which is meant; so is a weight that is not finite") {
  Matrix w = normal_matrix(4, 256, 0.05f, 72);
  for (const auto& format : all_formats()) {
    INFO(format->label());
    if (format->label().starts_with("int_grouped/b8/row/sym")) continue;
    if (format->tile_columns(256) == 256 && format->bits_per_weight(256, 256) < 8.2) continue;  // the same by another name
    CHECK_THAT(message_of([&] { packed(w, *format); }), Catch::Contains("eetq") && Catch::Contains("group_size: -1"));
  }
  w.at(2, 3) = std::numeric_limits<float>::infinity();
  const auto format = make<WeightFormat>(spec_of("int_grouped", {{"bits", "8"}, {"group_size", "-1"}, {"symmetric", "true"}}));
  CHECK_THAT(message_of([&] { packed(w, *format); }), Catch::Contains("row 2"));
}
