// What is particular to E4M3: known patterns, and all 256 of them there and back.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "one_byte_rows.h"
#include "patchbay/kv_store.h"
#include "patchbay/plugin.h"

using namespace patchbay;
using namespace patchbay::test;

TEST_CASE("kv format fp8_e4m3: the patterns of torch.float8_e4m3fn") {
  const auto format = make<KvFormat>({"fp8_e4m3", nullptr});
  // torch 2.15: tensor([...]).to(torch.float8_e4m3fn).view(torch.uint8)
  const std::pair<float, unsigned> expected[] = {
      {0.0f, 0x00},    {-0.0f, 0x80},   {1.0f, 0x38},     {1.0625f, 0x38},   {1.1875f, 0x3A},            {-2.5f, 0xC2},
      {0.1f, 0x1D},    {0.017f, 0x09},  {3.1415927f, 0x45}, {447.0f, 0x7E},  {448.0f, 0x7E},             {464.0f, 0x7E},
      {1e9f, 0x7E},    {-1e9f, 0xFE},   {0x1p-9f, 0x01},  {0x1p-10f, 0x00},  {0x1p-10f * 1.001f, 0x01},  {0x3p-10f, 0x02}};
  for (const auto& [value, pattern] : expected) {
    INFO(value);
    CHECK(stored(*format, value) == pattern);
  }
  CHECK(stored(*format, INFINITY) == 0x7E);  // (F2)
  CHECK(std::isnan(read(*format, stored(*format, -NAN))));
}

TEST_CASE("kv format fp8_e4m3: every pattern reads as the formula says, and is stored as itself") {
  const auto format = make<KvFormat>({"fp8_e4m3", nullptr});
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    INFO(pattern);
    const int exponent = static_cast<int>(pattern >> 3 & 15), mantissa = static_cast<int>(pattern & 7);
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    const float value = read(*format, pattern);
    if ((pattern & 0x7F) == 0x7F) {
      CHECK(std::isnan(value));
      continue;
    }
    CHECK(value == (pattern & 0x80 ? -magnitude : magnitude));
    CHECK(stored(*format, value) == pattern);
  }
}
