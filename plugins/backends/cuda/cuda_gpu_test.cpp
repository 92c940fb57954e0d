// The dense operations of the CUDA backend on the checked emulator, under 8 schedules each, against their formulas in double.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "cuda_ops.h"
#include "gpu/device_tensor.h"
#include "patchbay/fp8.h"
#include "patchbay/gpu/emulator.h"
#include "rounding_ops.h"
#include "support.h"

namespace patchbay::test {
namespace {

constexpr int kSchedules = 8;
template <class Body>
void under_schedules(Body body) {
  for_each_schedule(kSchedules, body);
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
const auto kWorld = test_world();
#define LAUNCH(name) (*gpu::pick(gpu_launchers::name, kWorld))

struct Shape {
  std::int64_t rows, cols, gap;
};
// One value, less than a warp, odd, whole packs with and without aligned rows, several packs per thread.
constexpr Shape kShapes[] = {{1, 1, 0}, {3, 7, 1}, {2, 64, 0}, {2, 64, 3}, {5, 576, 8}, {1, 2304, 0}};

/// Calls check(type, shape, version) for all of them.
void for_each_case(std::initializer_list<Version> versions, const std::function<void(DType, Shape, Version)>& check) {
  for (const DType type : kTypes) {
    for (const Shape& shape : kShapes) {
      for (const Version version : versions) {
        INFO(name_of(type) << " " << shape.rows << " x " << shape.cols << " gap " << shape.gap << " version "
                           << static_cast<int>(version));
        check(type, shape, version);
      }
    }
  }
}

std::vector<float> norm_of(const std::vector<float>& x, const std::vector<float>& weight, double epsilon) {
  const std::size_t cols = weight.size();
  std::vector<float> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += cols) {
    double squares = 0;
    for (std::size_t c = 0; c < cols; ++c) squares += double{x[row + c]} * x[row + c];
    for (std::size_t c = 0; c < cols; ++c)
      out[row + c] = static_cast<float>(x[row + c] / std::sqrt(squares / cols + epsilon) * weight[c]);
  }
  return out;
}

TEST_CASE("cuda ops: rms_norm") {
  std::mt19937 random(1);
  for_each_case({Version::naive, Version::block, Version::fast}, [&](DType type, Shape shape, Version version) {
    const auto x = rounded(type, random_values(random, shape.rows * shape.cols, -3, 3)), w = random_values(random, shape.cols);
    const DeviceTensor in(type, {shape.rows, shape.cols}, x, shape.gap), weight(DType::f32, {shape.cols}, w);
    under_schedules([&] {
      const DeviceTensor out(type, {shape.rows, shape.cols}, shape.gap);
      LAUNCH(rms_norm)(version, in.ref(), weight.ref(), 1e-5f, out.ref(), {});
      CHECK(difference(out.values(), norm_of(x, w, 1e-5)) < 2 * epsilon_of(type) + 1e-5);
      CHECK(out.gaps_intact());
    });
    const DeviceTensor own(type, {shape.rows, shape.cols}, x, shape.gap);  // out may be x
    LAUNCH(rms_norm)(version, own.ref(), weight.ref(), 1e-5f, own.ref(), {});
    CHECK(difference(own.values(), norm_of(x, w, 1e-5)) < 2 * epsilon_of(type) + 1e-5);
  });
}

TEST_CASE("cuda ops: layer_norm keeps its digits where the mean is large") {
  std::mt19937 random(2);
  for_each_case({Version::naive, Version::fast}, [&](DType type, Shape shape, Version version) {
    const auto x =
        rounded(type, random_values(random, shape.rows * shape.cols, type == DType::f32 ? 99 : 3, type == DType::f32 ? 101 : 5));
    const auto w = random_values(random, shape.cols), b = random_values(random, shape.cols);
    std::vector<float> expected(x.size());
    for (std::int64_t row = 0; row < shape.rows * shape.cols; row += shape.cols) {
      double sum = 0, squares = 0;
      for (std::int64_t c = 0; c < shape.cols; ++c) sum += x[row + c];
      const double mean = sum / shape.cols;
      for (std::int64_t c = 0; c < shape.cols; ++c) squares += (x[row + c] - mean) * (x[row + c] - mean);
      for (std::int64_t c = 0; c < shape.cols; ++c)
        expected[row + c] = static_cast<float>((x[row + c] - mean) / std::sqrt(squares / shape.cols + 1e-5) * w[c] + b[c]);
    }
    const DeviceTensor in(type, {shape.rows, shape.cols}, x, shape.gap), weight(DType::f32, {shape.cols}, w),
        bias(DType::f32, {shape.cols}, b);
    under_schedules([&] {
      const DeviceTensor out(type, {shape.rows, shape.cols}, shape.gap);
      LAUNCH(layer_norm)(version, in.ref(), weight.ref(), bias.ref(), 1e-5f, out.ref(), {});
      CHECK(difference(out.values(), expected) < 2 * epsilon_of(type) + 3e-4);
      CHECK(out.gaps_intact());
    });
  });
}

TEST_CASE("cuda ops: add_rms_norm gives the bits of add and rms_norm") {
  std::mt19937 random(3);
  for_each_case({Version::fast}, [&](DType type, Shape shape, Version version) {
    const auto x = random_values(random, shape.rows * shape.cols), y = random_values(random, shape.rows * shape.cols);
    const DeviceTensor addend(type, {shape.rows, shape.cols}, y, shape.gap),
        weight(DType::f32, {shape.cols}, random_values(random, shape.cols));
    const DeviceTensor sums(type, {shape.rows, shape.cols}, x, shape.gap), expected(type, {shape.rows, shape.cols}, shape.gap);
    LAUNCH(add)(version, sums.ref(), addend.ref(), {});
    LAUNCH(rms_norm)(version, sums.ref(), weight.ref(), 1e-5f, expected.ref(), {});
    under_schedules([&] {
      const DeviceTensor fused(type, {shape.rows, shape.cols}, x, shape.gap), out(type, {shape.rows, shape.cols}, shape.gap);
      LAUNCH(add_rms_norm)(fused.ref(), addend.ref(), weight.ref(), 1e-5f, out.ref(), {});
      CHECK(fused.values() == sums.values());
      CHECK(out.values() == expected.values());
      CHECK(out.gaps_intact());
    });
  });
}

/// Codes of 8 bits on the device, as bytes; tensors know no 8-bit floats.
TensorRef codes_in(const DeviceTensor& bytes, DType code) {
  TensorRef codes = bytes.ref();
  codes.dtype = code;
  return codes;
}
/// What quantize_rows promises of rows that are finite.
void expected_codes(const std::vector<float>& values, std::int64_t cols, const RowRounding& how, std::vector<float>& codes,
                    std::vector<float>& scales) {
  codes.assign(values.size(), 0);
  scales.assign(values.size() / cols, 0);
  const auto largest = [&](auto first, auto last) {
    return std::accumulate(first, last, 0.0f, [](float most, float v) { return std::max(most, std::fabs(v)); });
  };
  for (std::size_t r = 0; r < scales.size(); ++r) {
    const auto row = values.begin() + r * cols;
    const bool common = how.scale == RowRounding::Scale::tensor, given = how.scale == RowRounding::Scale::given;
    const float reach = common ? largest(values.begin(), values.end()) : largest(row, row + cols);
    const float inverse = given ? 1.0f / how.given : how.largest_code() / reach;
    scales[r] = given ? how.given : reach / how.largest_code();
    for (std::int64_t c = 0; c < cols; ++c) {
      const float scaled = row[c] * inverse;
      if (how.code == DType::i8)
        codes[r * cols + c] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::nearbyint(std::clamp(scaled, -127.0f, 127.0f))));
      else
        codes[r * cols + c] = encode_fp8(scaled, how.code == DType::f8_e4m3 ? kE4M3 : kE5M2);
    }
  }
}

TEST_CASE("cuda ops: rows rounded to 8 bits, alone and with the norm before it") {
  using enum RowRounding::Scale;
  std::mt19937 random(4);
  for (const RowRounding how : {RowRounding{DType::i8, token, 0}, {DType::f8_e4m3, token, 0}, {DType::f8_e5m2, given, 1e-4f}, {DType::i8, tensor, 0}})
    for_each_case({Version::naive, Version::fast}, [&](DType type, Shape shape, Version version) {
      INFO(name_of(how.code) << " scale " << static_cast<int>(how.scale));
      const std::int64_t count = shape.rows * shape.cols;
      const auto x = random_values(random, count), y = random_values(random, count);
      const DeviceTensor addend(type, {shape.rows, shape.cols}, y, shape.gap), sums(type, {shape.rows, shape.cols}, x, shape.gap);
      const DeviceTensor weight(DType::f32, {shape.cols}, random_values(random, shape.cols)), normed(type, {shape.rows, shape.cols}, shape.gap);
      LAUNCH(add)(Version::fast, sums.ref(), addend.ref(), {});
      LAUNCH(rms_norm)(Version::fast, sums.ref(), weight.ref(), 1e-5f, normed.ref(), {});
      std::vector<float> codes, scales;
      expected_codes(normed.values(), shape.cols, how, codes, scales);
      under_schedules([&] {
        const DeviceTensor out(DType::u8, {shape.rows, shape.cols}, shape.gap), factors(DType::f32, {shape.rows});
        LAUNCH(quantize_rows)(version, normed.ref(), how, {codes_in(out, how.code), factors.ref()}, {});
        CHECK(out.values() == codes);
        CHECK(factors.values() == scales);
        CHECK(out.gaps_intact());
        if (how.scale == tensor || version != Version::fast) return;
        const DeviceTensor fused(type, {shape.rows, shape.cols}, x, shape.gap), place(type, {shape.rows, shape.cols}, shape.gap);
        const DeviceTensor fused_codes(DType::u8, {shape.rows, shape.cols}, shape.gap), fused_factors(DType::f32, {shape.rows});
        LAUNCH(add_rms_norm_quantize)(fused.ref(), addend.ref(), weight.ref(), 1e-5f, how, place.ref(),
                                      {codes_in(fused_codes, how.code), fused_factors.ref()}, {});
        CHECK(fused.values() == sums.values());
        CHECK(fused_codes.values() == codes);
        CHECK(fused_factors.values() == scales);
        CHECK(fused_codes.gaps_intact());
      });
    });
}

TEST_CASE("cuda ops: a row of zeros has codes 0 and scale 0, one with NaN the scale NaN, one with infinity codes 0") {
  using enum RowRounding::Scale;
  for (const Version version : {Version::naive, Version::fast}) {
    for (const RowRounding how : {RowRounding{DType::i8, token, 0}, {DType::f8_e4m3, token, 0}, {DType::i8, tensor, 0}, {DType::i8, given, 0.5f}}) {
      for (const std::int64_t cols : {3, 64}) {
        std::vector<float> x(4 * cols, 0.0f);
        x[cols + 1] = NAN;
        x[2 * cols + 2] = INFINITY;
        std::fill_n(x.begin() + 3 * cols, cols, 1e-42f);
        const DeviceTensor in(DType::f32, {4, cols}, x), codes(DType::u8, {4, cols}), scales(DType::f32, {4});
        LAUNCH(quantize_rows)(version, in.ref(), how, {codes_in(codes, how.code), scales.ref()}, {});
        CHECK(codes.values() == std::vector<float>(4 * cols, 0.0f));
        const auto factors = scales.values();
        CHECK(factors[0] == how.given);
        CHECK(std::isnan(factors[1]));
        CHECK(factors[2] == INFINITY);
        CHECK(factors[3] == how.given);
      }
    }
  }
}

TEST_CASE("cuda ops: rope with both layouts and partial dims, by a table of angles") {
  std::mt19937 random(5);
  struct Case {
    std::int64_t rows, heads, size, dims, angle_gap = 0;
  };
  for (const DType type : kTypes) {
    for (const Case& c : {Case{1, 1, 2, 2}, {3, 3, 64, 64}, {2, 4, 80, 32}, {2, 4, 80, 20}, {1, 2, 5, 4}, {2, 1, 8, 0}, {2, 1, 16, 16, 2}}) {
      for (const bool interleaved : {false, true}) {
        INFO(name_of(type) << " rows " << c.rows << " heads " << c.heads << " D " << c.size << " dims " << c.dims
                           << " interleaved " << interleaved);
        const auto x = rounded(type, random_values(random, c.rows * c.heads * c.size)),
                   angles = random_values(random, 7 * c.dims);
        const std::vector<float> positions = {5, 0, 6};
        std::vector<float> expected = x;
        for (std::int64_t r = 0; r < c.rows; ++r) {
          const float* table = angles.data() + static_cast<std::int64_t>(positions[r]) * c.dims;  // dims may be 0
          for (std::int64_t h = 0; h < c.heads; ++h) {
            for (std::int64_t i = 0; i < c.dims / 2; ++i) {
              float* head = &expected[(r * c.heads + h) * c.size];
              float& first = head[interleaved ? 2 * i : i];
              float& second = head[interleaved ? 2 * i + 1 : i + c.dims / 2];
              const double a = first, b = second, cosine = table[i], sine = table[c.dims / 2 + i];
              first = static_cast<float>(a * cosine - b * sine);
              second = static_cast<float>(b * cosine + a * sine);
            }
          }
        }
        const DeviceTensor at(DType::i32, {c.rows}, {positions.begin(), positions.begin() + c.rows}),
            table(DType::f32, {7, c.dims}, angles, c.angle_gap);
        const RopeSpec spec{static_cast<int>(c.dims), interleaved, table.ref()};
        for (const std::int64_t gap : {8, 3}) {
          under_schedules([&] {
            for (const Version version : {Version::naive, Version::fast}) {
              const DeviceTensor turned(type, {c.rows, c.heads, c.size}, x, gap);
              LAUNCH(rope)(version, turned.ref(), at.ref(), spec, {});
              CHECK(difference(turned.values(), expected) < epsilon_of(type) + 1e-6);
              CHECK(turned.gaps_intact());
            }
          });
        }
      }
    }
  }
}

TEST_CASE("cuda ops: rope of heads that begin anywhere") {
  std::mt19937 random(12);
  const auto values = random_values(random, 48), angles = random_values(random, 8);
  const DeviceTensor at(DType::i32, {1}, std::vector<float>{0}), table(DType::f32, {1, 8}, angles);
  for (int first = 0; first < 32; ++first) {  // one of them at a multiple of 15 bytes that is none of 16
    std::vector<std::vector<float>> results;
    for (const Version version : {Version::naive, Version::fast}) {
      const DeviceTensor memory(DType::f32, {1, 1, 48}, values);
      TensorRef head = memory.ref();
      head.data = memory.data<float>() + first;
      head.shape[2] = 8;
      LAUNCH(rope)(version, head, at.ref(), {8, false, table.ref()}, {});
      results.push_back(memory.values());
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("cuda ops: gates, sums, factors and caps, element by element") {
  std::mt19937 random(6);
  for_each_case({Version::naive, Version::fast}, [&](DType type, Shape shape, Version version) {
    const std::int64_t n = shape.rows * shape.cols;
    const auto g = rounded(type, random_values(random, n, -8, 8)), up = rounded(type, random_values(random, n, -2, 2));
    std::vector<float> silu(n), gelu(n), sum(n), scaled(n), capped(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = g[i], u = up[i];
      silu[i] = static_cast<float>(x / (1 + std::exp(-x)) * u);
      gelu[i] = static_cast<float>(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * u);
      sum[i] = static_cast<float>(x + u);
      scaled[i] = static_cast<float>(x * 0.3f);
      capped[i] = static_cast<float>(5 * std::tanh(x / 5));
    }
    const double tolerance = epsilon_of(type) + 3e-6;
    const DeviceTensor gates(type, {shape.rows, shape.cols}, g, shape.gap),
        factors(type, {shape.rows, shape.cols}, up, shape.gap);
    under_schedules([&] {
      DeviceTensor out(type, {shape.rows, shape.cols}, shape.gap);
      LAUNCH(gated)(version, Gate::silu, gates.ref(), factors.ref(), out.ref(), {});
      CHECK(difference(out.values(), silu) < tolerance);
      LAUNCH(gated)(version, Gate::gelu_tanh, gates.ref(), factors.ref(), out.ref(), {});
      CHECK(difference(out.values(), gelu) < tolerance);
      out.set(g);
      LAUNCH(add)(version, out.ref(), factors.ref(), {});
      CHECK(difference(out.values(), sum) < tolerance);
      out.set(g);
      LAUNCH(scale)(version, out.ref(), 0.3f, {});
      CHECK(difference(out.values(), scaled) < tolerance);
      out.set(g);
      LAUNCH(soft_cap)(version, out.ref(), 5.0f, {});
      CHECK(difference(out.values(), capped) < tolerance);
      CHECK(out.gaps_intact());
    });
  });
}

TEST_CASE("cuda ops: take_rows copies rows of any type and marks numbers that no row has") {
  std::mt19937 random(7);
  for (const DType stored : kTypes) {
    for_each_case({Version::naive, Version::fast}, [&](DType type, Shape shape, Version version) {
      const auto table = rounded(stored, random_values(random, 6 * shape.cols));
      const std::vector<float> tokens = {5, 0, 3, 6, -1};
      const DeviceTensor weights(stored, {6, shape.cols}, table, shape.gap), ids(DType::i32, {5}, tokens),
          out(type, {5, shape.cols}, shape.gap);
      std::vector<float> expected;
      for (const float token : tokens) {
        for (std::int64_t c = 0; c < shape.cols; ++c)
          expected.push_back(token < 0 || token > 5 ? NAN
                                                    : rounded(type, table[static_cast<std::int64_t>(token) * shape.cols + c]));
      }
      under_schedules([&] {
        LAUNCH(take_rows)(version, weights.ref(), ids.ref(), out.ref(), {});
        CHECK(difference(out.values(), expected) == 0);
        CHECK(out.gaps_intact());
      });
    });
  }
}

TEST_CASE("cuda ops: add_rows adds weighted rows where they belong; add takes a bias") {
  std::mt19937 random(8);
  for_each_case({Version::naive, Version::fast}, [&](DType type, Shape shape, Version version) {
    const auto x = rounded(type, random_values(random, 5 * shape.cols)),
               rows = rounded(type, random_values(random, 3 * shape.cols));
    const auto bias = random_values(random, shape.cols);
    const std::vector<float> ids = {4, 0, 2}, factors = {0.5f, -2.0f, 3.0f};
    std::vector<float> expected = x, biased = x;
    for (std::int64_t i = 0; i < 3 * shape.cols; ++i) {
      float& sum = expected[static_cast<std::int64_t>(ids[i / shape.cols]) * shape.cols + i % shape.cols];
      sum = static_cast<float>(sum + double{factors[i / shape.cols]} * rows[i]);
    }
    for (std::int64_t i = 0; i < 5 * shape.cols; ++i) biased[i] += bias[i % shape.cols];
    const DeviceTensor numbers(DType::i32, {3}, ids), weights(DType::f32, {3}, factors),
        added(type, {3, shape.cols}, rows, shape.gap);
    const DeviceTensor offsets(DType::f32, {1, shape.cols}, bias);
    TensorRef one_for_all = offsets.ref();
    one_for_all.shape[0] = 5;
    one_for_all.strides[0] = 0;
    under_schedules([&] {
      DeviceTensor sums(type, {5, shape.cols}, x, shape.gap);
      LAUNCH(add_rows)(version, sums.ref(), numbers.ref(), weights.ref(), added.ref(), {});
      CHECK(difference(sums.values(), expected) < epsilon_of(type) + 1e-6);
      sums.set(x);
      LAUNCH(add)(version, sums.ref(), one_for_all, {});
      CHECK(difference(sums.values(), biased) < epsilon_of(type) + 1e-6);
      CHECK(sums.gaps_intact());
    });
  });
}

TEST_CASE("cuda ops: matmul_stored is the product, whatever the weight's type") {
  std::mt19937 random(9);
  for (const DType stored : kTypes) {
    for (const DType type : kTypes) {
      for (const DType result : {type, DType::f32}) {
        for (const auto& [tokens, rows, cols, gap] : {std::array<std::int64_t, 4>{1, 1, 1, 0}, {3, 5, 33, 3}, {2, 130, 8, 0}}) {
          INFO(name_of(stored) << " x " << name_of(type) << ", " << tokens << " x " << rows << " x " << cols);
          const auto x = rounded(type, random_values(random, tokens * cols)), w = rounded(stored, random_values(random, rows * cols));
          std::vector<float> expected;
          for (std::int64_t i = 0; i < tokens * rows; ++i) {
            double sum = 0;
            for (std::int64_t c = 0; c < cols; ++c) sum += double{x[i / rows * cols + c]} * w[i % rows * cols + c];
            expected.push_back(static_cast<float>(sum));
          }
          const DeviceTensor in(type, {tokens, cols}, x, gap), weight(stored, {rows, cols}, w, gap);
          under_schedules([&] {
            const DeviceTensor out(result, {tokens, rows}, gap);
            LAUNCH(matmul_stored)(in.ref(), weight.ref(), out.ref(), {});
            CHECK(difference(out.values(), expected) < epsilon_of(result) + 3e-6);
            CHECK(out.gaps_intact());
          });
        }
      }
    }
  }
}

TEST_CASE("cuda ops: what does not fit together is an error") {
  const DeviceTensor x(DType::f32, {2, 8}), short_weight(DType::f32, {7}), half(DType::f16, {2, 8}), codes(DType::i8, {2, 8});
  CHECK(message_of([&] {
          LAUNCH(rms_norm)(Version::fast, x.ref(), short_weight.ref(), 1e-5f, x.ref(), {});
        }).find("7 values where 8") != std::string::npos);
  CHECK(message_of([&] {
          LAUNCH(add)(Version::fast, codes.ref(), codes.ref(), {});
        }).find("activations of type i8") != std::string::npos);
  CHECK_THROWS_AS(LAUNCH(add)(Version::fast, x.ref(), half.ref(), {}), Error);
  CHECK_THROWS_AS(LAUNCH(add)(Version::block, x.ref(), x.ref(), {}), Error);
  const DeviceTensor empty(DType::f32, {0, 8}), weight(DType::f32, {8}, std::vector<float>(8, 1.0f));
  LAUNCH(rms_norm)(Version::fast, empty.ref(), weight.ref(), 1e-5f, empty.ref(), {});  // no rows: nothing to do
}

}  // namespace
}  // namespace patchbay::test
