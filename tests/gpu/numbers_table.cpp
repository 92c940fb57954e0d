// Digests of conversions and arithmetic, one a line. Built twice, with NVIDIA's headers and with the emulator's own: the output must be the same
// (numbers_compare.cmake).
#include <bit>
#include <cstdint>
#include <cstdio>
#if defined(WITH_NVIDIA_HEADERS)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#else
#include "patchbay/gpu.h"
#endif

namespace {

std::uint64_t digest;
void add(std::uint32_t value) { digest = (digest ^ value) * 0x100000001B3ull; }
void add(float value) { add(value != value ? 0x7FC00000u : std::bit_cast<std::uint32_t>(value)); }  // a NaN is a NaN
template <class T> std::uint16_t bits16(T value) { return std::bit_cast<std::uint16_t>(value); }
template <class T> std::uint8_t bits8(T value) { return std::bit_cast<std::uint8_t>(value); }

template <class Body> void line(const char* name, Body body) {
  digest = 0xCBF29CE484222325ull;
  body();
  std::printf("%-28s %016llx\n", name, static_cast<unsigned long long>(digest));
}
template <class Body> void over_floats(Body body) {
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4093) body(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) body(std::bit_cast<float>(high << 16 | low));
}
template <class Body> void over_codes(Body body) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) body(static_cast<std::uint16_t>(bits));
}

}  // namespace

int main() {
  line("half to float", [] { over_codes([](std::uint16_t b) { add(__half2float(std::bit_cast<__half>(b))); }); });
  line("bfloat16 to float", [] { over_codes([](std::uint16_t b) { add(__bfloat162float(std::bit_cast<__nv_bfloat16>(b))); }); });
  line("float to half", [] { over_floats([](float f) { add(std::uint32_t{bits16(__float2half(f))}); }); });
  line("float to bfloat16", [] { over_floats([](float f) { add(std::uint32_t{bits16(__float2bfloat16(f))}); }); });
  line("double to half", [] { over_floats([](float f) { add(std::uint32_t{bits16(__double2half(f * 1.0000001))}); }); });
  line("float to e4m3", [] { over_floats([](float f) { add(std::uint32_t{bits8(__nv_fp8_e4m3(f))}); }); });
  line("float to e5m2", [] { over_floats([](float f) { add(std::uint32_t{bits8(__nv_fp8_e5m2(f))}); }); });
  line("float to e4m3, not saturated", [] { over_floats([](float f) { add(std::uint32_t{__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E4M3)}); }); });
  line("float to e5m2, not saturated", [] { over_floats([](float f) { add(std::uint32_t{__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E5M2)}); }); });
  line("half to e4m3", [] { over_codes([](std::uint16_t b) { add(std::uint32_t{bits8(__nv_fp8_e4m3(std::bit_cast<__half>(b)))}); }); });
  line("8-bit floats to float", [] {
    for (std::uint32_t b = 0; b < 256; ++b) {
      add(static_cast<float>(std::bit_cast<__nv_fp8_e4m3>(static_cast<std::uint8_t>(b))));
      add(static_cast<float>(std::bit_cast<__nv_fp8_e5m2>(static_cast<std::uint8_t>(b))));
    }
  });
  line("arithmetic", [] {
    std::uint32_t state = 1;
    const auto draw = [&] { return static_cast<std::uint16_t>((state = state * 1664525u + 1013904223u) >> 16); };
    for (int i = 0; i < 1000000; ++i) {
      const __half a = std::bit_cast<__half>(draw()), b = std::bit_cast<__half>(draw());
      const __nv_bfloat16 c = std::bit_cast<__nv_bfloat16>(draw()), d = std::bit_cast<__nv_bfloat16>(draw());
      for (const __half r : {a + b, a - b, a * b, a / b}) add(__half2float(r));
      for (const __nv_bfloat16 r : {c + d, c - d, c * d, c / d}) add(__bfloat162float(r));
      add(static_cast<std::uint32_t>(a < b) | static_cast<std::uint32_t>(a == b) << 1 | static_cast<std::uint32_t>(c >= d) << 2);
    }
  });
}
