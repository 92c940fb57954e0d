// What is particular to int_grouped: its bits, its half-step bound, its layout, groups of any size.
#include <catch2/catch.hpp>
#include <cmath>

#include "patchbay/half.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

std::shared_ptr<WeightFormat> int_grouped(const std::vector<std::pair<std::string, std::string>>& settings) {
  return make<WeightFormat>(spec_of("int_grouped", settings));
}
Backend& backend() {
  static const auto cpu = make<Backend>({"cpu", nullptr});
  return *cpu;
}

}  // namespace

TEST_CASE("int_grouped: bits per weight are codes, scales and zero points, no more") {
  REQUIRE(int_grouped({{"bits", "4"}, {"group_size", "64"}})->bits_per_weight(576, 1536) == 4 + (16 + 4) / 64.0);
  REQUIRE(int_grouped({{"bits", "4"}, {"group_size", "64"}, {"symmetric", "true"}})->bits_per_weight(576, 1536) == 4 + 16 / 64.0);
  REQUIRE(int_grouped({{"bits", "3"}, {"group_size", "32"}})->bits_per_weight(576, 1536) == 3 + (16 + 3) / 32.0);
  REQUIRE(int_grouped({{"bits", "8"}, {"group_size", "-1"}})->bits_per_weight(576, 1536) == 8 + (16 + 8) / 1536.0);
}

TEST_CASE("int_grouped: no weight is further than half a step from its code") {
  constexpr std::int64_t kRows = 5, kCols = 576;
  for (const char* bits : {"2", "3", "4", "8"}) {
    for (const char* symmetric : {"false", "true"}) {
      for (const char* group : {"64", "48", "9", "1", "-1"}) {
        const auto format = int_grouped({{"bits", bits}, {"symmetric", symmetric}, {"group_size", group}});
        const std::int64_t width = format->tile_columns(kCols);
        for (const auto& [kind, w] : weights_of_many_kinds(kRows, kCols)) {
          INFO(format->label() << ", " << kind);
          Matrix promised(kRows, kCols), decoded(kRows, kCols);
          const auto packed = round_to_format(*format, w, backend().device(), promised);
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
  const auto packed = round_to_format(*format, w, backend().device(), decoded);
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
  const auto packed = round_to_format(*format, w, backend().device(), decoded);
  REQUIRE_THAT(format->prepare(packed, backend().ops(), ActivationMode::q8)->path(), Catch::StartsWith("int_grouped/b4/g48:decode/"));
  const auto forced = int_grouped({{"group_size", "48"}, {"kernel", "integer"}});
  REQUIRE_THROWS_WITH(forced->prepare(packed, backend().ops(), ActivationMode::q8), Catch::Contains("32"));
}
