// Every KV format found: what comes back is within the format's bound, in the bytes it says, for every kind of row.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kv_support.h"
#include "patchbay/half.h"
#include "patchbay/kv_rows.h"
#include "registry.h"

namespace patchbay::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Decoded {
  std::vector<float> values;
  float scale = 0;
};

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Decoded round_trip(const KvFormat& format, const std::vector<float>& row) {
  const std::int64_t n = static_cast<std::int64_t>(row.size()), bytes = format.row_bytes(n);
  std::vector<std::byte> stored(bytes + 64, std::byte{0xAB});
  Half scale{};
  format.encode(View<const float, 1>(row.data(), {n}), stored.data(), &scale);
  for (std::int64_t i = bytes; i < bytes + 64; ++i) REQUIRE(stored[i] == std::byte{0xAB});  // nothing past the row
  Decoded decoded{std::vector<float>(n), to_float(scale)};
  format.decode(stored.data(), scale, View<float, 1>(decoded.values.data(), {n}));
  std::vector<float> plain(n);
  decode_row(format.layout(), stored.data(), scale, View<float, 1>(plain.data(), {n}));
  for (std::int64_t i = 0; i < n; ++i)
    REQUIRE(same(plain[i], decoded.values[i]));  // the layout's plain meaning is the format's own
  return decoded;
}

/// The largest finite number of an 8-bit float, at which larger ones stop.
double largest_of(const KvLayout& layout) { return layout.dtype == DType::f8_e4m3 ? 448.0 : layout.dtype == DType::f8_e5m2 ? 57344.0 : INFINITY; }

/// Half a step of the stored number, from the layout alone.
double bound(const KvLayout& layout, float value, float scale) {
  if (std::fabs(value) > largest_of(layout)) return std::fabs(value) - largest_of(layout);
  switch (layout.dtype) {
    case DType::f8_e4m3:
      return std::fabs(value) * 0x1p-4 + 0x1p-10;
    case DType::f8_e5m2:
      return std::fabs(value) * 0x1p-3 + 0x1p-17;
    case DType::f32:
      return 0;
    case DType::f16:
      return std::fabs(value) * 0x1p-11 + 0x1p-25;  // the second term: subnormals
    case DType::bf16:
      return std::fabs(value) * 0x1p-8;
    default:
      return 0.5001 * scale + 127 * 0x1p-25;  // the second term: scales that are subnormal themselves
  }
}

void for_each_format(const std::function<void(const KvFormat&)>& check) {
  const auto names = Registry::instance().names("kv_formats");
  REQUIRE(names.size() >= 3);
  for (const std::string& name : names) {
    DYNAMIC_SECTION(name) {
      const auto format = make<KvFormat>(PluginSpec{name, nullptr});
      CHECK(format->name() == name);
      check(*format);
    }
  }
}

TEST_CASE("kv formats: a row comes back within half a step, in the bytes stated") {
  for_each_format([](const KvFormat& format) {
    std::mt19937 random(1);
    for (const std::int64_t head_size : {1, 7, 8, 40, 64, 80, 128, 256}) {
      CHECK(format.row_bytes(head_size) == head_size * bytes_of(format.layout().dtype));
      for (const float spread : {1e-9f, 1e-4f, 1.0f, 300.0f, 6e3f}) {
        const auto row = random_values(random, head_size, spread);
        const Decoded decoded = round_trip(format, row);
        for (std::int64_t d = 0; d < head_size; ++d) {
          INFO("D " << head_size << " spread " << spread << " value " << row[d] << " decoded " << decoded.values[d]);
          REQUIRE(std::fabs(double{row[d]} - decoded.values[d]) <= bound(format.layout(), row[d], decoded.scale));
        }
      }
    }
  });
}

TEST_CASE("kv formats: zero rows, huge values and NaN are defined") {
  for_each_format([](const KvFormat& format) {
    for (const float value : round_trip(format, std::vector<float>(64, 0.0f)).values) CHECK(value == 0.0f);
    // Signs and order survive whatever happens to the magnitude.
    const Decoded huge = round_trip(format, {3e38f, -3e38f, 1.0f, kInfinity, -kInfinity, 0.0f, -2.0f, 1e30f});
    const double reached = std::min(6e4, largest_of(format.layout()));
    CHECK(huge.values[0] >= reached);
    CHECK(huge.values[1] <= -reached);
    CHECK(huge.values[3] >= huge.values[0]);
    CHECK(huge.values[4] <= huge.values[1]);
    if (format.layout().dtype == DType::i8) CHECK(huge.values[0] == 127 * 65504.0f);
    // A NaN never becomes a number.
    CHECK(std::isnan(round_trip(format, {1.0f, std::nanf(""), 2.0f, -kInfinity, 5e-42f, 0, 0, 0, 9}).values[1]));
  });
}

TEST_CASE("kv formats: rows with a stride are stored like dense ones") {
  for_each_format([](const KvFormat& format) {
    std::mt19937 random(2);
    const auto wide = random_values(random, 3 * 64);
    std::vector<float> dense(64);
    for (int d = 0; d < 64; ++d) dense[d] = wide[3 * d];
    std::vector<std::byte> a(format.row_bytes(64)), b(format.row_bytes(64));
    Half scale_a{}, scale_b{};
    format.encode(View<const float, 1>(wide.data(), {64}, {3}), a.data(), &scale_a);
    format.encode(View<const float, 1>(dense.data(), {64}), b.data(), &scale_b);
    CHECK(a == b);
    CHECK(scale_a.bits == scale_b.bits);
  });
}

TEST_CASE("kv format fp16: its kernels agree on every half and around every tie") {
  const auto plain = make<KvFormat>(plugin("fp16", {{"kernel", scalar("plain")}}));
  const auto best = make<KvFormat>(PluginSpec{"fp16", nullptr});
  Settings by_phase;
  by_phase.kind = Settings::Kind::map;
  by_phase.entries = {{"prefill", scalar("plain")}};
  CHECK_THROWS_WITH(make<KvFormat>(plugin("fp16", {{"kernel", by_phase}})), Catch::Contains("differs by phase"));
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float exact = to_float(Half{static_cast<std::uint16_t>(bits)});
    const float next = to_float(Half{static_cast<std::uint16_t>(bits + 1)});
    const float tie = exact + (next - exact) / 2;
    for (const float value : {exact, tie, std::nextafterf(tie, kInfinity), std::nextafterf(tie, -kInfinity)})
      values.push_back(value);
  }
  const std::int64_t n = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> a(2 * n), b(2 * n);
  plain->encode(View<const float, 1>(values.data(), {n}), a.data(), nullptr);
  best->encode(View<const float, 1>(values.data(), {n}), b.data(), nullptr);
  CHECK(std::memcmp(a.data(), b.data(), a.size()) == 0);
  std::vector<float> from_plain(n), from_best(n);
  plain->decode(a.data(), Half{}, View<float, 1>(from_plain.data(), {n}));
  best->decode(a.data(), Half{}, View<float, 1>(from_best.data(), {n}));
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < n; ++i) different += !same(from_plain[i], from_best[i]);
  CHECK(different == 0);
}

}  // namespace
}  // namespace patchbay::test
