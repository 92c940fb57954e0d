// What is particular to fp16: every one of its 65536 bit patterns, against the formula, and back.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "patchbay/half.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

/// (F1) in double.
double value_by_formula(unsigned bits) {
  const double sign = bits & 0x8000 ? -1 : 1, mantissa = bits & 0x3FF;
  const int exponent = static_cast<int>(bits >> 10 & 0x1F);
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1 + mantissa / 1024, exponent - 15);
}

}  // namespace

TEST_CASE("fp16: every number decodes as the formula says, and encodes to itself") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if ((bits & 0x7C00) == 0x7C00) {  // infinities and NaNs
      REQUIRE(((bits & 0x3FF) ? std::isnan(value) : std::isinf(value)));
      REQUIRE(std::signbit(value) == ((bits & 0x8000) != 0));
      continue;
    }
    REQUIRE(value == value_by_formula(bits));
    REQUIRE(std::signbit(value) == ((bits & 0x8000) != 0));
    REQUIRE(to_half(value).bits == bits);
  }
}

TEST_CASE("fp16: rounding goes to the nearest, halves to the even neighbour") {
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
    const float low = to_float(Half{static_cast<std::uint16_t>(bits)}), high = to_float(Half{static_cast<std::uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;  // exact in fp32
    REQUIRE(to_half(middle).bits == (bits % 2 ? bits + 1 : bits));
    REQUIRE(to_half(std::nextafter(middle, low)).bits == bits);
    REQUIRE(to_half(std::nextafter(middle, high)).bits == bits + 1);
  }
}

TEST_CASE("fp16: a weight past the largest number is refused, a moved one is clamped") {
  const auto format = make<WeightFormat>({"fp16", nullptr});
  Matrix w(1, 32);
  const auto grid = format->fit(w.view(), {});
  const float large = 70000.0f;
  std::int32_t code = 0;
  float decoded = 0;
  grid->round(0, {&large, {1}}, {&code, {1}}, {&decoded, {1}});
  REQUIRE(decoded == 65504.0f);
  w.at(0, 3) = large;
  REQUIRE_THROWS_WITH(format->fit(w.view(), {}), Catch::Contains("70000") && Catch::Contains("65504"));
}
