// What is particular to the backend cpu; the rest is in tests/conformance/backends_test.cpp.
#include <algorithm>
#include <catch2/catch.hpp>

#include "patchbay/backend.h"
#include "patchbay/plugin.h"

using namespace patchbay;

namespace {

Settings scalar(const std::string& text) {
  Settings node;
  node.kind = Settings::Kind::scalar;
  node.text = text;
  node.where = "test";
  return node;
}
std::shared_ptr<Backend> backend(const Settings& kernel) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  settings->where = "test";
  settings->entries = {{"kernel", kernel}, {"threads", scalar("1")}};
  return make<Backend>({"cpu", settings});
}

/// Every block alike.
struct Uniform : AffineSource {
  float scale, offset;
  Uniform(std::int64_t r, std::int64_t c, int width, float s, float o) : scale(s), offset(o) { rows = r; cols = c; bits = width; }
  void read(std::int64_t, std::uint8_t* codes, float* scales, float* offsets) const override {
    std::fill_n(codes, cols, std::uint8_t{3});
    std::fill_n(scales, cols / 32, scale);
    std::fill_n(offsets, cols / 32, offset);
  }
};

}  // namespace

TEST_CASE("cpu: one kernel set serves both phases") {
  Settings both;
  both.kind = Settings::Kind::map;
  both.where = "test";
  both.entries = {{"prefill", scalar("plain")}, {"decode", scalar("plain")}};
  CHECK(backend(both)->ops().kernel() == "plain");
#if defined(__x86_64__)
  both.entries[1].second = scalar("avx2");
  CHECK_THROWS_WITH(backend(both), Catch::Contains("plain") && Catch::Contains("avx2") && Catch::Contains("one name for both"));
#endif
}

#if defined(__x86_64__)
TEST_CASE("cpu: scales are fp16 where that is exact, and offsets are left out where a constant zero implies them") {
  if (!__builtin_cpu_supports("avx2")) return;
  const auto avx2 = backend(scalar("avx2"));
  const auto bytes = [&](int bits, float scale, float offset) {
    return avx2->ops().host().prepare_affine(Uniform(8, 64, bits, scale, offset))->bytes();
  };
  // 8 rows of 2 blocks are one tile: 256 or 512 bytes of codes, 16 numbers of 2 or 4 bytes once or twice, padded to 64.
  CHECK(bytes(4, 0.5f, -1.25f) == 256 + 2 * 32);
  CHECK(bytes(4, 0.1f, -1.25f) == 256 + 2 * 64);   // 0.1 is no fp16
  CHECK(bytes(4, 0.5f, -4.0f) == 256 + 64);        // zero 8; 32 bytes of scales, padded
  CHECK(bytes(8, 0.1f, -12.8f) == 512 + 64);       // zero 128, scales fp32
  CHECK(bytes(8, 0.5f, 0.5f) == 512 + 2 * 32);     // a zero of -1 is no code
}
#endif
