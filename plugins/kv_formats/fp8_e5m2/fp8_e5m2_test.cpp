// What is particular to E5M2: known patterns, and that it is the upper byte of fp16.
#include <catch2/catch.hpp>
#include <cmath>

#include "one_byte_rows.h"
#include "patchbay/half.h"
#include "patchbay/kv_store.h"
#include "patchbay/plugin.h"

using namespace patchbay;
using namespace patchbay::test;

TEST_CASE("kv format fp8_e5m2: the patterns of torch.float8_e5m2, and past the largest number that number") {
  const auto format = make<KvFormat>({"fp8_e5m2", nullptr});
  // torch 2.15: tensor([...]).to(torch.float8_e5m2).view(torch.uint8)
  const std::pair<float, unsigned> expected[] = {
      {0.0f, 0x00},     {-0.0f, 0x80},     {1.0f, 0x3C},     {1.0625f, 0x3C},            {1.1875f, 0x3D}, {-2.5f, 0xC1},
      {0.1f, 0x2E},     {0.017f, 0x24},    {3.1415927f, 0x42}, {480.0f, 0x60},           {0x1p-9f, 0x18}, {57344.0f, 0x7B},
      {61439.0f, 0x7B}, {0x1p-16f, 0x01},  {0x1p-17f, 0x00}, {0x1p-17f * 1.001f, 0x01},  {1e-7f, 0x00}};
  for (const auto& [value, pattern] : expected) {
    INFO(value);
    CHECK(stored(*format, value) == pattern);
  }
  for (const float large : {61440.0f, 1e9f, INFINITY}) CHECK(stored(*format, large) == 0x7B);  // (F2): torch has infinity here
  CHECK(stored(*format, -1e9f) == 0xFB);
}

TEST_CASE("kv format fp8_e5m2: every pattern is an fp16 number whose lower byte is zero") {
  const auto format = make<KvFormat>({"fp8_e5m2", nullptr});
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    INFO(pattern);
    const float value = read(*format, pattern), half = to_float(Half{static_cast<std::uint16_t>(pattern << 8)});
    CHECK((value == half || (std::isnan(value) && std::isnan(half))));
    if (std::isfinite(value)) CHECK(stored(*format, value) == pattern);
  }
}
