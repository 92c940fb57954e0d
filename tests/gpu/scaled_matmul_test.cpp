// Products of 8-bit numbers (W8A8, FP8), emulated: against exact integers and fp64, with inputs in 8 bits and in 16, and under the
// names of YAML.
#include "fp8_gpu.h"
#include "matmul_support.h"
#include "support.h"

namespace patchbay {
PATCHBAY_GPU_LAUNCHER(void, w8a8_matmul, (const ScaledMatmulArgs&, gpu::Stream))
}  // namespace patchbay

using namespace patchbay;
using namespace patchbay::test;

namespace {

const gpu::World kWorld = test_world();

/// The number that a byte stands for.
float int8_value(std::uint8_t byte) { return static_cast<std::int8_t>(byte); }
/// By its definition: sign, exponent with a bias, mantissa.
float fp8_value(std::uint8_t byte, int mantissa_bits, int bias) {
  const int mantissa = byte & ((1 << mantissa_bits) - 1), exponent = (byte & 0x7F) >> mantissa_bits;
  const float part = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float magnitude = exponent ? std::ldexp(1.0f + part, exponent - bias) : std::ldexp(part, 1 - bias);
  return byte & 0x80 ? -magnitude : magnitude;
}
float e4m3_value(std::uint8_t byte) { return fp8_value(byte, 3, 7); }
float e5m2_value(std::uint8_t byte) { return fp8_value(byte, 2, 15); }

struct Kind {
  const char* name;
  std::function<void(const ScaledMatmulArgs&, int group_size)> multiply;
  float (*value)(std::uint8_t);
  std::uint8_t largest;  ///< code of the largest number
  DType type;
  std::vector<MatmulKernel> kernels;
};
std::vector<Kind> kinds() {
  using enum MatmulKernel;
  const auto fp8 = [](bool is_e5m2) {
    return [is_e5m2](const ScaledMatmulArgs& args, int group_size) {
      gpu::pick(gpu_launchers::fp8_matmul, kWorld)({args, is_e5m2, group_size}, gpu::Stream{});
    };
  };
  const auto int8 = [](const ScaledMatmulArgs& args, int) { gpu::pick(gpu_launchers::w8a8_matmul, kWorld)(args, gpu::Stream{}); };
  return {{"w8a8", int8, int8_value, 0x7F, DType::i8, {naive, gemv, tensor_core}},
          {"e4m3", fp8(false), e4m3_value, 0x7E, DType::f8_e4m3, {naive, gemv, dequantised, tensor_core}},
          {"e5m2", fp8(true), e5m2_value, 0x7B, DType::f8_e5m2, {naive, gemv, dequantised, tensor_core}}};
}

/// Every byte but what stands for no finite number.
std::vector<std::uint8_t> random_codes(std::size_t count, const Kind& kind, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> codes(count);
  for (auto& code : codes) do
      code = static_cast<std::uint8_t>(random());
    while ((code & 0x7F) > kind.largest);
  return codes;
}

/// x in 8 bits with a scale per token, or in 16 bits; w with a scale per row, per group of a row, or one.
struct Problem {
  int tokens, rows, cols, group_size = 0;
  bool one_scale = false;
  DType x_type;
  std::vector<std::uint8_t> w;
  Bytes x;
  std::vector<float> x_values, token_scales, scales;

  Problem(const Kind& kind, int t, int r, int c, DType type)
      : tokens(t), rows(r), cols(c), x_type(type), w(random_codes(static_cast<std::size_t>(r) * c, kind, 2)), scales(normal_numbers(r, 4)) {
    if (type == kind.type) {
      const auto codes = random_codes(static_cast<std::size_t>(t) * c, kind, 1);
      x = bytes_of(codes);
      for (std::uint8_t code : codes) x_values.push_back(kind.value(code));
      token_scales = normal_numbers(t, 3);
    } else {
      x_values = normal_numbers(static_cast<std::size_t>(t) * c, 1);
      for (float& v : x_values) v = rounded_to(type, v);
      x = stored_as(type, x_values);
    }
  }
  Problem& with_groups(int size) {
    group_size = size;
    scales = normal_numbers(static_cast<std::size_t>(rows) * (cols / size), 5);
    for (float& scale : scales) scale *= 0.01f;  // what is multiplied in 16 bits must fit them
    return *this;
  }
  Problem& with_one_scale() {
    one_scale = true;
    scales.resize(1);
    return *this;
  }
  float scale(int r, int c) const { return scales[group_size ? r * (cols / group_size) + c / group_size : one_scale ? 0 : r]; }
};

std::vector<float> run(const Kind& kind, const Problem& p, MatmulKernel kernel) {
  const DeviceArray<std::byte> x(p.x, "x");
  const DeviceArray<std::uint8_t> w(p.w, "w");
  const DeviceArray<float> token_scales(p.token_scales), scales(p.scales), y(static_cast<std::size_t>(p.tokens) * p.rows, "y");
  const MatmulArgs args{kernel, x.data(), p.x_type, {w.data(), scales.data()}, y.data(), DType::f32, p.tokens, p.rows, p.cols};
  kind.multiply({args, p.token_scales.empty() ? nullptr : token_scales.data(), p.one_scale}, p.group_size);
  return y.host();
}

/// `in_16_bits`: groups' scales make of a weight what 16 bits do not hold.
void check(const Kind& kind, const Problem& p, const std::vector<float>& y, bool in_16_bits = false) {
  const double rounding = !in_16_bits ? 2e-6 : p.x_type == DType::bf16 ? 0x1p-8 : 0x1p-10;
  for (int t = 0; t < p.tokens; ++t)
    for (int r = 0; r < p.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int c = 0; c < p.cols; ++c) {
        const double product = static_cast<double>(p.x_values[t * p.cols + c]) * kind.value(p.w[r * p.cols + c]) * p.scale(r, c);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double scale = p.token_scales.empty() ? 1 : p.token_scales[t];
      INFO(kind.name << ": y(" << t << "," << r << ") of " << p.tokens << " x " << p.rows << " x " << p.cols << ", groups of "
                     << p.group_size);
      REQUIRE(y[t * p.rows + r] == Approx(sum * scale).margin(rounding * magnitude * std::fabs(scale)).epsilon(1e-6));
    }
}

bool meets_in_16_bits(const Problem& p, MatmulKernel kernel) {
  return p.group_size && (kernel == MatmulKernel::dequantised || kernel == MatmulKernel::tensor_core);
}

}  // namespace

TEST_CASE("8-bit products equal fp64 on odd shapes") {
  for (const Kind& kind : kinds())
    for (MatmulKernel kernel : kind.kernels)
      for (const auto& [tokens, rows, cols] : {std::array{1, 5, 16}, std::array{2, 33, 208}, std::array{17, 130, 64}}) {
        Problem p(kind, tokens, rows, cols, kind.type);
        check(kind, p, run(kind, p, kernel));
        if (tokens != 2) continue;
        p.with_one_scale();
        check(kind, p, run(kind, p, kernel));
      }
}

TEST_CASE("8-bit products under eight schedules") {
  for (const Kind& kind : kinds())
    for (const auto& [tokens, rows, cols] : {std::array{3, 35, 144}, std::array{1, 5, 16}, std::array{17, 5, 80}})
      for (MatmulKernel kernel : kind.kernels) {
        const Problem p(kind, tokens, rows, cols, kind.type);
        for_each_schedule(8, [&] { check(kind, p, run(kind, p, kernel)); });
      }
}

TEST_CASE("8-bit floats by inputs of 16 bits, and with a scale per group, under eight schedules") {
  const auto all = kinds();
  for (const Kind& kind : {all[1], all[2]})
    for (DType type : {DType::f16, DType::bf16, kind.type})
      for (int group_size : {0, 48, 9})
        for (MatmulKernel kernel : kind.kernels) {
          Problem p(kind, 3, 21, 144, type);
          if (group_size) p.with_groups(group_size);
          for_each_schedule(8, [&] { check(kind, p, run(kind, p, kernel), meets_in_16_bits(p, kernel)); });
        }
}

TEST_CASE("sums of int8 are exact: all kernels give the same bits") {
  const Kind kind = kinds().front();
  const Problem p(kind, 33, 65, 528, kind.type);
  const auto naive = run(kind, p, MatmulKernel::naive);
  for (MatmulKernel kernel : {MatmulKernel::gemv, MatmulKernel::tensor_core}) CHECK(run(kind, p, kernel) == naive);
}

TEST_CASE("8-bit products: rows are taken by their numbers, with their scales") {
  for (const Kind& kind : kinds())
    for (int group_size : {0, 9}) {
      if (group_size && kind.type == DType::i8) continue;
      Problem p(kind, 1, 6, 45, kind.type);
      if (group_size) p.with_groups(group_size);
      const std::vector<std::int32_t> ids = {5, 0, 5};
      const DeviceArray<std::int32_t> numbers(ids);
      const DeviceArray<std::uint8_t> w(p.w, "w");
      const DeviceArray<float> scales(p.scales), out(3 * p.cols, "out");
      MatmulArgs args{MatmulKernel::take_rows, nullptr, kind.type, {w.data(), scales.data()}, out.data(), DType::f32, 3, p.rows, p.cols};
      args.ids = numbers.data();
      kind.multiply({args, nullptr, false}, group_size);
      const auto rows = out.host();
      for (int t = 0; t < 3; ++t)
        for (int c = 0; c < p.cols; ++c) REQUIRE(rows[t * p.cols + c] == kind.value(p.w[ids[t] * p.cols + c]) * p.scale(ids[t], c));
    }
}

TEST_CASE("a row must be a multiple of 16 bytes, but for the naive kernel") {
  for (const Kind& kind : kinds()) {
    const Problem p(kind, 2, 3, 7, kind.type);
    check(kind, p, run(kind, p, MatmulKernel::naive));
    CHECK_THROWS_WITH(run(kind, p, MatmulKernel::tensor_core), Catch::Contains("multiple of 16 columns"));
  }
}

TEST_CASE("fp8 products need sm_89; sm_80 multiplies the same numbers in fp16", "[emulator]") {
  const Kind fp8 = kinds()[1];
  const Problem p(fp8, 3, 16, 32, fp8.type), of_halves(fp8, 3, 16, 32, DType::f16);
  const auto expected = run(fp8, p, MatmulKernel::dequantised);
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.architecture = 80;
  const gpu::ScopedOptions scope(options);
  CHECK(run(fp8, p, MatmulKernel::dequantised) == expected);
  CHECK_THROWS_WITH(run(fp8, p, MatmulKernel::tensor_core), Catch::Contains("sm_89") && Catch::Contains("dequantised"));
  check(fp8, of_halves, run(fp8, of_halves, MatmulKernel::tensor_core));  // of 16-bit inputs it asks nothing
}
