// What is particular to formats of uneven levels, nf4 and fp4: bitsandbytes' codes and scales, and double quantisation.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "patchbay/double_quantisation.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

std::shared_ptr<WeightFormat> levels(const std::string& name, const std::string& block, bool double_quantisation) {
  return make<WeightFormat>(spec_of(name, {{"block_size", block}, {"double_quantisation", double_quantisation ? "true" : "false"}}));
}

/// The matrix of tests/golden/four_bit_levels/generate.py.
Matrix golden_weights(std::int64_t rows, std::int64_t cols) {
  Matrix w(rows, cols);
  std::uint32_t state = 1;
  for (float& value : w.values) {
    const float u = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
    value = u * std::fabs(u);
    state = 1664525u * state + 1013904223u;
  }
  return w;
}
template <class T>
std::vector<T> unhexed(const std::string& hex) {
  std::vector<T> values(hex.size() / 2 / sizeof(T));
  auto* bytes = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < hex.size() / 2; ++i) bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return values;
}
/// fp4 has a second zero, code 8, which bitsandbytes takes for small weights of one sign, on a CPU of the other than on a GPU.
int one_zero(int byte, const std::string& name) {
  const auto code = [&](int nibble) { return name == "fp4" && nibble == 8 ? 0 : nibble; };
  return code(byte >> 4) << 4 | code(byte & 15);
}
double squared_error(const Matrix& w, const Matrix& decoded) {
  double sum = 0;
  for (std::size_t i = 0; i < w.values.size(); ++i) sum += (static_cast<double>(w.values[i]) - decoded.values[i]) * (static_cast<double>(w.values[i]) - decoded.values[i]);
  return sum;
}
const nlohmann::json& golden() {
  static const auto read = nlohmann::json::parse(read_file(source_path("tests/golden/four_bit_levels/levels.json")));
  return read;
}

}  // namespace

TEST_CASE("nf4, fp4: levels, codes, scales and what they decode to are bitsandbytes'") {
  const std::int64_t rows = golden().at("rows"), block = golden().at("block");
  const Matrix w = golden_weights(rows, block);
  for (const auto& [name, expected] : golden().at("formats").items()) {
    INFO(name);
    const auto& plain = expected.at("plain");
    const auto format = levels(name, std::to_string(block), false);
    Matrix decoded(rows, block);
    const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
    const auto codes = unhexed<std::uint8_t>(plain.at("codes"));
    REQUIRE(codes.size() == static_cast<std::size_t>(rows * block / 2));
    for (std::size_t i = 0; i < codes.size(); ++i) REQUIRE(one_zero(packed.parts[0].as<std::uint8_t, 2>()(i * 2 / block, i % (block / 2)), name) == one_zero(codes[i], name));
    const auto scales = unhexed<float>(plain.at("scales"));
    REQUIRE(std::memcmp(packed.parts[1].data, scales.data(), scales.size() * sizeof(float)) == 0);
    const auto values = unhexed<float>(plain.at("decoded"));
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(std::fabs(decoded.values[i] - values[i]) <= 1e-6f * std::fabs(values[i]));
    // All sixteen, from codes that no rounding gives too (fp4's second zero).
    PackedWeight all = levels(name, "16", false)->allocate("w", 1, 16, host_backend().device());
    Matrix each(1, 16);
    for (int i = 0; i < 8; ++i) all.parts[0].as<std::uint8_t, 2>()(0, i) = static_cast<std::uint8_t>(2 * i << 4 | (2 * i + 1));
    all.parts[1].as<float, 2>()(0, 0) = 1.0f;
    levels(name, "16", false)->decode(all, 0, each.view());
    for (std::size_t i = 0; i < 16; ++i) REQUIRE(std::fabs(each.values[i] - plain.at("levels")[i].get<float>()) <= 1e-7f);
  }
}

TEST_CASE("nf4, fp4: doubly quantised scales are bitsandbytes', and the codes chosen on them are no worse") {
  const std::int64_t rows = golden().at("rows"), block = golden().at("block");
  const Matrix w = golden_weights(rows, block);
  const auto map = unhexed<float>(golden().at("map"));
  for (std::size_t i = 0; i < 256; ++i) REQUIRE(dynamic_map()[i] == Approx(map.at(i)).epsilon(1e-6).margin(0));
  for (const auto& [name, expected] : golden().at("formats").items()) {
    INFO(name);
    const auto& nested = expected.at("double");
    Matrix decoded(rows, block);
    const auto packed = round_to_format(*levels(name, std::to_string(block), true), w, host_backend().device(), decoded);
    const auto codes = unhexed<std::uint8_t>(nested.at("codes8"));
    REQUIRE(codes.size() == static_cast<std::size_t>(rows));
    REQUIRE(std::memcmp(packed.parts[1].data, codes.data(), codes.size()) == 0);
    const auto second = packed.parts[2].as<float, 2>();
    REQUIRE(second.shape[1] == 3);
    for (int i = 0; i < 2; ++i) REQUIRE(second(0, i) == Approx(nested.at("second")[i].get<float>()).margin(3e-7 * second(0, 2)));  // they sum the mean in fp32
    REQUIRE(second(0, 2) == Approx(nested.at("mean").get<float>()).epsilon(3e-7));
    // bitsandbytes chooses codes before it rounds the scales: here they are the nearest on the scales as stored.
    const double theirs = nested.at("squared_error"), ours = squared_error(w, decoded);
    CHECK(ours <= theirs);
    CHECK(ours >= 0.97 * theirs);
  }
}

TEST_CASE("nf4, fp4: bits per weight are codes and scales, no more") {
  for (const char* name : {"nf4", "fp4"}) {
    REQUIRE(levels(name, "64", false)->bits_per_weight(512, 1536) == 4 + 32 / 64.0);
    REQUIRE(levels(name, "4096", false)->bits_per_weight(512, 4096) == 4 + 32 / 4096.0);
    REQUIRE(levels(name, "64", true)->bits_per_weight(512, 1536) == Approx(4 + 8 / 64.0 + 3 * 32 / (64.0 * 512)).epsilon(1e-12));
  }
}

TEST_CASE("nf4, fp4: double quantisation gives up no block that is small beside others, and none of zeros") {
  for (const char* name : {"nf4", "fp4"}) {
    Matrix w = normal_matrix(300, 64, 1.0f, 9), decoded(300, 64);
    for (std::int64_t c = 0; c < 64; ++c) {
      w.at(7, c) *= 1e-3f;
      w.at(8, c) = 0.0f;
      w.at(9, c) *= 1e3f;
    }
    round_to_format(*levels(name, "64", true), w, host_backend().device(), decoded);
    for (std::int64_t c = 0; c < 64; ++c) {
      REQUIRE(decoded.at(8, c) == 0.0f);
      if (std::fabs(w.at(9, c)) > 2e3f) REQUIRE(std::fabs(decoded.at(9, c) / w.at(9, c) - 1) < 0.2f);
    }
    // The scales of 256 rows around 1 share a unit of about 3000 with row 9: they become multiples of about 20, and none is below itself.
    const auto nested = NestedScales::of({3.0f, 3.1f, 3000.0f, 0.003f, 0.0f});
    for (const auto& [i, scale] : {std::pair{0, 3.0f}, {1, 3.1f}, {2, 3000.0f}, {3, 0.003f}}) REQUIRE(nested.value(i) >= 0.9f * scale);
  }
}

TEST_CASE("nf4, fp4: a block that does not divide a row is refused, and one that is no multiple of 16") {
  REQUIRE_THROWS_WITH(levels("nf4", "64", false)->layout(4, 96), Catch::Contains("blocks of 64 do not divide a row of 96"));
  REQUIRE_THROWS_WITH(levels("fp4", "24", false), Catch::Contains("multiple of 16"));
  REQUIRE_THROWS_WITH(levels("nf4", "8", false), Catch::Contains("16 to 4096"));
}
