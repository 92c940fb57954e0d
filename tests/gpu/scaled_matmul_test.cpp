// Products of 8-bit numbers on both sides (W8A8, FP8), emulated: against exact integers, against fp64, and tokens quantised on
// the device.
#include "patchbay/gpu/scaled_matmul.h"

#include "matmul_support.h"
#include "support.h"

namespace patchbay {
PATCHBAY_GPU_LAUNCHER(void, w8a8_matmul, (const ScaledMatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, w8a8_quantize_tokens, (const QuantizeTokensArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, fp8_e4m3_matmul, (const ScaledMatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, fp8_e4m3_quantize_tokens, (const QuantizeTokensArgs&, gpu::Stream))
}  // namespace patchbay

using namespace patchbay;
using namespace patchbay::test;

namespace {

const gpu::World kWorld = test_world();

/// The number that a byte stands for.
float int8_value(std::uint8_t byte) { return static_cast<std::int8_t>(byte); }
/// e4m3 by its definition: sign, four bits of exponent with bias 7, three of mantissa; no infinities.
float e4m3_value(std::uint8_t byte) {
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  const float magnitude = exponent ? std::ldexp(1.0f + mantissa / 8.0f, exponent - 7) : std::ldexp(mantissa / 8.0f, -6);
  return byte & 0x80 ? -magnitude : magnitude;
}

struct Kind {
  const char* name;
  void (*multiply)(const ScaledMatmulArgs&, gpu::Stream);
  void (*quantize)(const QuantizeTokensArgs&, gpu::Stream);
  float (*value)(std::uint8_t);
  float largest;
  std::vector<MatmulKernel> kernels;
};
std::vector<Kind> kinds() {
  using enum MatmulKernel;
  return {{"w8a8",
           gpu::pick(gpu_launchers::w8a8_matmul, kWorld),
           gpu::pick(gpu_launchers::w8a8_quantize_tokens, kWorld),
           int8_value,
           127,
           {naive, gemv, tensor_core}},
          {"fp8",
           gpu::pick(gpu_launchers::fp8_e4m3_matmul, kWorld),
           gpu::pick(gpu_launchers::fp8_e4m3_quantize_tokens, kWorld),
           e4m3_value,
           448,
           {naive, gemv, dequantised, tensor_core}}};
}

/// Every byte but the two NaNs of e4m3.
std::vector<std::uint8_t> random_codes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) do
      code = static_cast<std::uint8_t>(random());
    while ((code & 0x7F) == 0x7F);
  return codes;
}

struct Problem {
  int tokens, rows, cols;
  std::vector<std::uint8_t> x, w;
  std::vector<float> token_scales, row_scales;
  Problem(int t, int r, int c)
      : tokens(t),
        rows(r),
        cols(c),
        x(random_codes(static_cast<std::size_t>(t) * c, 1)),
        w(random_codes(static_cast<std::size_t>(r) * c, 2)),
        token_scales(normal_numbers(static_cast<std::size_t>(t), 3)),
        row_scales(normal_numbers(static_cast<std::size_t>(r), 4)) {}
};

std::vector<float> run(const Kind& kind, const Problem& p, MatmulKernel kernel) {
  const DeviceArray<std::uint8_t> x(p.x, "x"), w(p.w, "w");
  const DeviceArray<float> token_scales(p.token_scales), row_scales(p.row_scales),
      y(static_cast<std::size_t>(p.tokens) * p.rows, "y");
  kind.multiply({{kernel, x.data(), DType::i8, {w.data()}, y.data(), DType::f32, p.tokens, p.rows, p.cols},
                 token_scales.data(),
                 row_scales.data()},
                gpu::Stream{});
  return y.host();
}

void check(const Kind& kind, const Problem& p, const std::vector<float>& y) {
  for (int t = 0; t < p.tokens; ++t)
    for (int r = 0; r < p.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int c = 0; c < p.cols; ++c) {
        const double product = static_cast<double>(kind.value(p.x[t * p.cols + c])) * kind.value(p.w[r * p.cols + c]);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double scale = static_cast<double>(p.token_scales[t]) * p.row_scales[r];
      INFO(kind.name << ": y(" << t << "," << r << ")");
      REQUIRE(y[t * p.rows + r] == Approx(sum * scale).margin(2e-6 * magnitude * std::fabs(scale)).epsilon(1e-6));
    }
}

}  // namespace

TEST_CASE("8-bit products equal fp64 on odd shapes") {
  for (const Kind& kind : kinds())
    for (MatmulKernel kernel : kind.kernels)
      for (const auto& [tokens, rows, cols] : {std::array{1, 5, 16}, std::array{2, 33, 208}, std::array{17, 130, 64}}) {
        const Problem p(tokens, rows, cols);
        check(kind, p, run(kind, p, kernel));
      }
}

TEST_CASE("8-bit products under eight schedules") {
  for (const Problem& p : {Problem(3, 35, 144), Problem(1, 5, 16), Problem(17, 5, 80)})
    for (const Kind& kind : kinds())
      for (MatmulKernel kernel : kind.kernels) for_each_schedule(8, [&] { check(kind, p, run(kind, p, kernel)); });
}

TEST_CASE("sums of int8 are exact: all kernels give the same bits") {
  const Kind kind = kinds().front();
  const Problem p(33, 65, 528);
  const auto naive = run(kind, p, MatmulKernel::naive);
  for (MatmulKernel kernel : {MatmulKernel::gemv, MatmulKernel::tensor_core}) CHECK(run(kind, p, kernel) == naive);
}

TEST_CASE("a row must be a multiple of 16 bytes, but for the naive kernel") {
  const Problem p(2, 3, 7);
  for (const Kind& kind : kinds()) {
    check(kind, p, run(kind, p, MatmulKernel::naive));
    CHECK_THROWS_WITH(run(kind, p, MatmulKernel::tensor_core), Catch::Contains("multiple of 16 columns"));
  }
}

TEST_CASE("tokens are quantised by their largest number") {
  constexpr int kTokens = 3, kCols = 70;
  for (const Kind& kind : kinds())
    for (DType type : {DType::f16, DType::bf16})
      for_each_schedule(8, [&] {
        std::vector<float> x = normal_numbers(kTokens * kCols, 9);
        std::fill(x.begin() + kCols, x.begin() + 2 * kCols, 0.0f);  // a token of zeros
        for (float& v : x) v = rounded_to(type, v);
        const DeviceArray<std::byte> input(stored_as(type, x), "x");
        const DeviceArray<std::uint8_t> codes(kTokens * kCols, "codes");
        const DeviceArray<float> scales(kTokens, "scales");
        kind.quantize({input.data(), type, codes.data(), scales.data(), kTokens, kCols}, gpu::Stream{});
        const auto found = codes.host();
        const auto found_scales = scales.host();
        for (int t = 0; t < kTokens; ++t) {
          float largest = 0;
          for (int c = 0; c < kCols; ++c) largest = std::max(largest, std::fabs(x[t * kCols + c]));
          CHECK(found_scales[t] == Approx(largest / kind.largest).margin(0));
          // Half a step: of int8 half the scale, of e4m3 a sixteenth of the number, or of its smallest normal number.
          for (int c = 0; c < kCols; ++c) {
            const float got = kind.value(found[t * kCols + c]) * found_scales[t], want = x[t * kCols + c];
            const float step =
                kind.largest == 127 ? 0.5f * found_scales[t] : std::max(std::fabs(want) / 16, found_scales[t] * 0x1p-10f);
            REQUIRE(std::fabs(got - want) <= step * 1.001f);
          }
        }
      });
}

TEST_CASE("fp8 products need sm_89; sm_80 multiplies the same numbers in fp16", "[emulator]") {
  const Kind fp8 = kinds()[1];
  const Problem p(3, 16, 32);
  const auto expected = run(fp8, p, MatmulKernel::dequantised);
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.architecture = 80;
  const gpu::ScopedOptions scope(options);
  CHECK(run(fp8, p, MatmulKernel::dequantised) == expected);
  CHECK_THROWS_WITH(run(fp8, p, MatmulKernel::tensor_core), Catch::Contains("sm_89") && Catch::Contains("dequantised"));
}
