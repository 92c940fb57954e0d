// RoPE frequencies of every scaling against transformers (tests/golden/rope).
#include "engine/rope.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support.h"

using namespace patchbay;

namespace {

struct Result {
  std::vector<float> frequencies;
  double magnitude = 1;
};

Result computed(const nlohmann::json& parameters, int dims, double length) {
  const std::string kind = parameters["rope_type"];
  const double base = parameters["rope_theta"], factor = parameters["factor"];
  const double original = parameters.value("original_max_position_embeddings", 4096.0);
  std::vector<double> frequencies = plain_frequencies(base, dims);
  Result result;
  if (kind == "linear") {
    scale_linear(frequencies, factor);
  } else if (kind == "llama3") {
    scale_llama3(frequencies, {factor, parameters["low_freq_factor"], parameters["high_freq_factor"], original});
  } else if (kind == "yarn") {
    scale_yarn(frequencies, base,
               {factor, original, parameters.value("beta_fast", 32.0), parameters.value("beta_slow", 1.0),
                parameters.value("truncate", true)});
    result.magnitude = yarn_magnitude(factor);
  } else if (kind == "longrope") {
    divide(frequencies, parameters["long_factor"].get<std::vector<float>>());
    result.magnitude = long_rope_magnitude(factor, original);
  } else if (kind == "dynamic") {
    Rope rope;
    rope.dims = dims;
    rope.base = base;
    rope.dynamic_factor = factor;
    rope.original_context = 4096;
    result.frequencies.resize(dims / 2);
    dynamic_frequencies(rope, length, result.frequencies);
    return result;
  } else {
    FAIL("unknown " << kind);
  }
  result.frequencies = rounded(frequencies);
  return result;
}

}  // namespace

TEST_CASE("RoPE: frequencies and magnitude of every scaling are those of transformers") {
  const auto golden = nlohmann::json::parse(test::read_file(test::source_path("tests/golden/rope/frequencies.json")));
  REQUIRE(golden["cases"].size() == 7);
  for (const auto& expected : golden["cases"]) {
    INFO(expected["parameters"].dump());
    const Result result = computed(expected["parameters"], expected["head_size"],
                                   expected["length"].is_null() ? 0 : expected["length"].get<double>());
    const auto frequencies = expected["frequencies"].get<std::vector<float>>();
    REQUIRE(result.frequencies.size() == frequencies.size());
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      INFO("pair " << i);
      CHECK(result.frequencies[i] == Approx(frequencies[i]).epsilon(2e-6));  // transformers computes in fp32
    }
    CHECK(result.magnitude == Approx(expected["magnitude"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("RoPE: Llama 3's three regions, by hand (A03)") {
  // theta 500000, head size 64, factor 8, low 1, high 4, original 8192: wavelengths below 2048 are kept, above 8192 divided by 8.
  const std::vector<double> plain = plain_frequencies(500000.0, 64);
  std::vector<double> scaled = plain;
  scale_llama3(scaled, {8.0, 1.0, 4.0, 8192.0});
  int kept = 0, blended = 0, divided = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * 3.14159265358979 / plain[i];
    if (wavelength < 2048) {
      ++kept;
      CHECK(scaled[i] == plain[i]);
    } else if (wavelength > 8192) {
      ++divided;
      CHECK(scaled[i] == Approx(plain[i] / 8));
    } else {
      ++blended;
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      CHECK(scaled[i] == Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i]));
    }
  }
  CHECK(kept > 0);
  CHECK(blended > 0);
  CHECK(divided > 0);
}
