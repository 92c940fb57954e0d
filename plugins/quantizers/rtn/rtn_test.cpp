// What is particular to rtn: threads change nothing, and a weight that is already on the grid comes back as it was.
#include <catch2/catch.hpp>

#include "patchbay/quantizer.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

TEST_CASE("rtn: quantising a matrix equals rounding its tiles one after the other") {
  const auto rtn = make<Quantizer>({"rtn", nullptr});
  const auto cpu = make<Backend>(spec_of("cpu", {}));
  const Matrix w = normal_matrix(301, 768, 0.05f, 1);
  for (const auto& format : all_formats()) {
    INFO(format->label());
    Matrix expected(w.rows, w.cols), decoded(w.rows, w.cols);
    round_to_format(*format, w, cpu->device(), expected);
    PackedWeight packed = format->allocate("w", w.rows, w.cols, cpu->device());
    rtn->quantize(w.view(), {}, *format, cpu->device(), packed);
    format->decode(packed, 0, decoded.view());
    REQUIRE(decoded.values == expected.values);
  }
}

TEST_CASE("rtn: what a format can hold exactly is kept exactly") {
  const auto rtn = make<Quantizer>({"rtn", nullptr});
  const auto cpu = make<Backend>(spec_of("cpu", {}));
  Matrix w(3, 64), decoded(3, 64);
  for (std::size_t i = 0; i < w.values.size(); ++i) w.values[i] = 0.25f * (static_cast<float>(i * 7 % 16) - 8.0f);  // 16 numbers
  for (const char* name : {"q4_0", "q4_1", "int_grouped", "fp16", "bf16", "fp32"}) {
    INFO(name);
    const auto format = make<WeightFormat>({name, nullptr});
    PackedWeight packed = format->allocate("w", w.rows, w.cols, cpu->device());
    rtn->quantize(w.view(), {}, *format, cpu->device(), packed);
    format->decode(packed, 0, decoded.view());
    REQUIRE(decoded.values == w.values);
  }
}
