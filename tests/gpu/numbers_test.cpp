// The emulator's own number types against their definitions.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "patchbay/gpu.h"

namespace {

using namespace patchbay;
__extension__ typedef __float128 Exact;  // wide enough for a product of halves and a sum

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// The nearest number with `digits` binary digits (the first included) and a smallest exponent, ties to even: by arithmetic, not by bits.
double rounded(double value, int digits, int smallest_exponent, double largest, double past_largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), smallest_exponent);
  const double unit = std::ldexp(1.0, exponent - digits + 1), result = std::nearbyint(value / unit) * unit;
  return std::fabs(result) > largest ? std::copysign(past_largest, value) : result;
}
double rounded_half(double value) { return rounded(value, 11, -14, 65504, INFINITY); }
double rounded_bfloat16(double value) { return rounded(value, 8, -126, 3.3895313892515355e38, INFINITY); }

/// Floats of all magnitudes, and all that lie beside a step of 16 bits.
template <class Body> void over_floats(Body body) {
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4093) body(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      body(std::bit_cast<float>(high << 16 | low));
}

/// Exact sum of a product and a number, rounded once to `digits` digits by way of a decision on the exact remainder.
template <class T> float fused(T a, T b, T c, double (*round)(double)) {
  const Exact exact = static_cast<Exact>(static_cast<float>(a)) * static_cast<Exact>(static_cast<float>(b)) + static_cast<Exact>(static_cast<float>(c));
  double near = static_cast<double>(exact);
  if (static_cast<Exact>(near) != exact && std::isfinite(near) && !(std::bit_cast<std::uint64_t>(near) & 1))
    near = std::nextafter(near, exact > static_cast<Exact>(near) ? HUGE_VAL : -HUGE_VAL);  // keeps the side of a tie
  return static_cast<float>(round(near));
}

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : bits_of(a) == bits_of(b); }

template <class Format> float nearest_fp8(const std::vector<float>& numbers, float value) {
  (void)sizeof(Format);
  const double magnitude = std::min<double>(std::fabs(value), numbers.back());  // saturates
  std::size_t best = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double distance = std::fabs(numbers[i] - magnitude), least = std::fabs(numbers[best] - magnitude);
    if (distance < least || (distance == least && i % 2 == 0)) best = i;
  }
  return std::copysign(numbers[best], value);
}

/// Positive numbers of an 8-bit float by its definition, in order.
std::vector<float> numbers_of(int mantissa_bits, int bias, int count) {
  std::vector<float> numbers;
  for (int code = 0; code < count; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const float fraction = static_cast<float>(mantissa) / static_cast<float>(1 << mantissa_bits);
    numbers.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
  }
  return numbers;
}

template <class T> void check_fp8(int mantissa_bits, int bias, int count) {
  const auto numbers = numbers_of(mantissa_bits, bias, count);
  for (int code = 0; code < 256; ++code) {
    T value;
    value.__x = static_cast<unsigned char>(code);
    const int magnitude = code & 0x7F;
    const float wide = static_cast<float>(value);
    if (magnitude < count) CHECK(wide == (code & 0x80 ? -numbers[magnitude] : numbers[magnitude]));
    else if (sizeof(T) == 1 && mantissa_bits == 2 && magnitude == 0x7C) CHECK(std::isinf(wide));
    else CHECK(std::isnan(wide));
    if (std::isfinite(wide)) CHECK(T(wide).__x == code);
  }
  std::mt19937 generator(3);
  std::size_t wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const float value = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(generator), static_cast<int>(generator() % 30) - 18);
    wrong += static_cast<float>(T(value)) != nearest_fp8<T>(numbers, value);
  }
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {  // ties, and the steps beside them
    const float middle = (numbers[i] + numbers[i + 1]) / 2;
    for (const float value : {middle, std::nextafterf(middle, 0), std::nextafterf(middle, HUGE_VALF)}) wrong += static_cast<float>(T(value)) != nearest_fp8<T>(numbers, value);
  }
  CHECK(wrong == 0);
  CHECK(static_cast<float>(T(INFINITY)) == numbers.back());
  CHECK(std::isnan(static_cast<float>(T(NAN))));
}

}  // namespace

TEST_CASE("half and bfloat16: conversions, exhaustively one way, at every step the other") {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half_bits = static_cast<unsigned short>(bits);
    wrong += !same(__half2float(__ushort_as_half(half_bits)), to_float(Half{half_bits}));
    wrong += !same(__bfloat162float(__ushort_as_bfloat16(half_bits)), to_float(BFloat16{half_bits}));
    if (!std::isnan(to_float(Half{half_bits}))) wrong += __half_as_ushort(__float2half(to_float(Half{half_bits}))) != half_bits;
  }
  CHECK(wrong == 0);
  over_floats([&](float value) {
    if (std::isnan(value)) {
      wrong += __half_as_ushort(__float2half(value)) != 0x7FFF || __bfloat16_as_ushort(__float2bfloat16(value)) != 0x7FFF;
      return;
    }
    wrong += !same(__half2float(__float2half(value)), static_cast<float>(rounded_half(value)));
    wrong += !same(__bfloat162float(__float2bfloat16(value)), static_cast<float>(rounded_bfloat16(value)));
  });
  CHECK(wrong == 0);
}

TEST_CASE("half and bfloat16: arithmetic rounds once, fma too") {
  std::mt19937 generator(5);
  std::size_t wrong = 0;
  const auto check = [&]<class T>(T a, T b, T c, double (*round)(double)) {
    const double x = static_cast<double>(static_cast<float>(a)), y = static_cast<double>(static_cast<float>(b));
    wrong += !same(static_cast<float>(a * b), static_cast<float>(round(x * y)));
    wrong += !same(static_cast<float>(__hadd(a, b)), fused(a, T(1.0f), b, round));
    wrong += !same(static_cast<float>(a - b), fused(a, T(1.0f), -b, round));
    wrong += !same(static_cast<float>(__hfma(a, b, c)), fused(a, b, c, round));
  };
  for (int i = 0; i < 300000; ++i) {
    const auto any = [&] {  // finite, of all magnitudes
      auto bits = static_cast<unsigned short>(generator());
      while ((bits & 0x7C00) == 0x7C00) bits = static_cast<unsigned short>(generator());
      return bits;
    };
    check(__ushort_as_half(any()), __ushort_as_half(any()), __ushort_as_half(any()), rounded_half);
    check(__float2bfloat16(std::ldexp(static_cast<float>(any()) - 32768, -static_cast<int>(generator() % 20))), __float2bfloat16(static_cast<float>(any())),
          __float2bfloat16(std::ldexp(static_cast<float>(any()), -static_cast<int>(generator() % 60))), rounded_bfloat16);
  }
  CHECK(wrong == 0);
  const __half one = 1.0f, tiny = __ushort_as_half(1);
  CHECK(__half_as_ushort(__hfma(one, __ushort_as_half(0x3C01), tiny)) == 0x3C01);
  CHECK(float(__hmax(__half(NAN), one)) == 1);
  CHECK(float(__hmin(-one, one)) == -1);
  CHECK(std::isnan(float(__hmax(__half(NAN), __half(NAN)))));
  const __half2 pair = __hfma2(__floats2half2_rn(2, 3), __float2half2_rn(4), __halves2half2(one, one));
  CHECK(__low2float(pair) == 9);
  CHECK(__high2float(pair) == 13);
}

TEST_CASE("8-bit floats: every code, ties, saturation") {
  check_fp8<__nv_fp8_e4m3>(3, 7, 0x7F);
  check_fp8<__nv_fp8_e5m2>(2, 15, 0x7C);
  CHECK(__nv_cvt_float_to_fp8(1000.0f, __NV_NOSAT, __NV_E4M3) == 0x7F);
  CHECK(__nv_cvt_float_to_fp8(1e6f, __NV_NOSAT, __NV_E5M2) == 0x7C);
  const float4 four = static_cast<float4>(__nv_fp8x4_e4m3(make_float4(1, -2, 448, 0.5f)));
  CHECK((four.x == 1 && four.y == -2 && four.z == 448 && four.w == 0.5f));
}
