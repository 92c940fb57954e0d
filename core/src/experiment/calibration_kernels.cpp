#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 sees these in its own intrinsics (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "experiment/calibration_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace patchbay {
namespace {

constexpr int kChains = 12;            // two units of a latency of 4 to 5 cycles want 8 to 10
constexpr int kByteChains = 6;         // of avx2 bytes: each ends in an addition of latency 1, and 16 registers must hold all
constexpr float kFactor = 0.999f, kTerm = 0.001f;  // x = kFactor x + kTerm stays near 1

double fp32_plain(std::int64_t rounds) {
  float x[4 * kChains];
  for (int i = 0; i < 4 * kChains; ++i) x[i] = static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (float& value : x) value = value * kFactor + kTerm;
  double sum = 0;
  for (const float value : x) sum += value;
  return sum;
}

double int8_plain(std::int64_t rounds) {
  std::uint8_t codes[64];
  std::int8_t inputs[64];
  for (int i = 0; i < 64; ++i) codes[i] = static_cast<std::uint8_t>(i), inputs[i] = static_cast<std::int8_t>(i - 32);
  std::int32_t sum = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    __asm__ volatile("" : : "r"(codes), "r"(inputs) : "memory");  // the arrays may have changed: multiply them again
    std::int32_t products = 0;
    for (int i = 0; i < 64; ++i) products += codes[i] * inputs[i];
    sum ^= products;
  }
  return sum;
}

std::uint64_t read_plain(const std::byte* bytes, std::int64_t count) {
  std::uint64_t sums[8] = {};
  for (std::int64_t at = 0; at < count; at += 64) {
    std::uint64_t words[8];
    __builtin_memcpy(words, bytes + at, 64);
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

#if defined(__x86_64__)
#define PATCHBAY_AVX2 __attribute__((target("avx2,fma")))
#define PATCHBAY_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

PATCHBAY_AVX2 double fp32_avx2(std::int64_t rounds) {
  __m256 x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) x[i] = _mm256_fmadd_ps(x[i], _mm256_set1_ps(kFactor), _mm256_set1_ps(kTerm));
  }
  double sum = 0;
  for (int i = 0; i < kChains; ++i) sum += _mm256_cvtss_f32(x[i]);
  return sum;
}

PATCHBAY_AVX512 double fp32_avx512(std::int64_t rounds) {
  __m512 x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) x[i] = _mm512_fmadd_ps(x[i], _mm512_set1_ps(kFactor), _mm512_set1_ps(kTerm));
  }
  double sum = 0;
  for (int i = 0; i < kChains; ++i) sum += _mm512_cvtss_f32(x[i]);
  return sum;
}

/// maddubs multiplies 32 bytes and adds pairs; the sums of 16 bits are added up. (They wrap, which costs nothing.)
PATCHBAY_AVX2 double int8_avx2(std::int64_t rounds) {
  __m256i sums[kByteChains], codes = _mm256_set1_epi8(3);
  const __m256i inputs = _mm256_set1_epi8(5);
  for (int i = 0; i < kByteChains; ++i) sums[i] = _mm256_setzero_si256();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < kByteChains; ++i) {
      __asm__ volatile("" : "+x"(codes));  // may have changed: multiply again
      sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(codes, inputs));
    }
  }
  double sum = 0;
  for (int i = 0; i < kByteChains; ++i) sum += _mm256_extract_epi16(sums[i], 0);
  return sum;
}

PATCHBAY_AVX512 double int8_avx512_vnni(std::int64_t rounds) {
  __m512i sums[kChains], codes = _mm512_set1_epi8(3);
  const __m512i inputs = _mm512_set1_epi8(5);
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_setzero_si512();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      __asm__ volatile("" : "+v"(codes));
      sums[i] = _mm512_dpbusd_epi32(sums[i], codes, inputs);
    }
  }
  double sum = 0;
  for (int i = 0; i < kChains; ++i) sum += _mm512_reduce_add_epi32(sums[i]);
  return sum;
}

PATCHBAY_AVX2 std::uint64_t read_avx2(const std::byte* bytes, std::int64_t count) {
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (std::int64_t at = 0; at < count; at += 256) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + at + 32 * i)));
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm256_add_epi64(sums[0], sums[i]);
  std::uint64_t lanes[4], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

PATCHBAY_AVX512 std::uint64_t read_avx512(const std::byte* bytes, std::int64_t count) {
  __m512i sums[8];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (std::int64_t at = 0; at < count; at += 512) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(bytes + at + 64 * i));
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm512_add_epi64(sums[0], sums[i]);
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sums[0]));
}

// As the cpu backend chooses its kernel sets.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

PeakLoop fp32_peak_loop() {
#if defined(__x86_64__)
  if (has_avx512_vnni()) return {"avx512 fma", 2.0 * 16 * kChains, fp32_avx512};
  if (has_avx2()) return {"avx2 fma", 2.0 * 8 * kChains, fp32_avx2};
#endif
  return {"plain", 2.0 * 4 * kChains, fp32_plain};
}

PeakLoop int8_peak_loop() {
#if defined(__x86_64__)
  if (has_avx512_vnni()) return {"avx512 vpdpbusd", 2.0 * 64 * kChains, int8_avx512_vnni};
  if (has_avx2()) return {"avx2 vpmaddubsw", 2.0 * 32 * kByteChains, int8_avx2};
#endif
  return {"plain", 2.0 * 64, int8_plain};
}

ReadLoop read_loop() {
#if defined(__x86_64__)
  if (has_avx512_vnni()) return read_avx512;
  if (has_avx2()) return read_avx2;
#endif
  return read_plain;
}

void triad(double* a, const double* b, const double* c, double s, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

}  // namespace patchbay
