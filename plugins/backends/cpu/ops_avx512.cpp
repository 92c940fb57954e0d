// Kernel set "avx512_vnni": what simd_kernels.h needs of vectors of 16 floats, with the byte products of VNNI.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 sees these in its own intrinsics (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "simd_kernels.h"

namespace patchbay::cpu {
namespace {

struct Avx512 {
  using Floats = __m512;
  using Ints = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kTileTokens = 6;    // 24 sums, 6 inputs and a weight of 32 registers
  static constexpr int kAffineTokens = 8;

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats all(float value) { return _mm512_set1_ps(value); }
  static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static Floats load_first(const float* from, int n) { return _mm512_maskz_loadu_ps(first(n), from); }
  /// kLanes numbers of 16 bits, or the first n of them and zeros.
  static __m256i load_16(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static __m256i load_16_first(const void* from, int n) { return _mm256_maskz_loadu_epi16(first(n), from); }
  static Floats from_half(__m256i numbers) { return _mm512_cvtph_ps(numbers); }
  static Floats from_bfloat16(__m256i numbers) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
  }
  static void store(float* to, Floats v) { _mm512_storeu_ps(to, v); }
  static void store_first(float* to, int n, Floats v) { _mm512_mask_storeu_ps(to, first(n), v); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static float sqrt(float value) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value))); }
  static Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static Floats power_of_two(Ints n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
  }

  static Ints zero_ints() { return _mm512_setzero_si512(); }
  static Ints all(std::int32_t value) { return _mm512_set1_epi32(value); }
  static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static Ints round(Floats v) { return _mm512_cvtps_epi32(v); }
  static Ints magnitude_bits(Floats v) { return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF)); }

  static float reduce_add(Floats v) { return _mm512_reduce_add_ps(v); }
  static std::int32_t reduce_add(Ints v) { return _mm512_reduce_add_epi32(v); }
  static std::int32_t reduce_max(Ints v) { return _mm512_reduce_max_epi32(v); }
  static void store_codes(std::int8_t* to, Ints v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(v));
  }
  /// Stores the sums over the lanes of the first n of four vectors.
  static void store_sums(const Floats v[4], float* to, int n) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(halved(v[0]), halved(v[1])), _mm256_hadd_ps(halved(v[2]), halved(v[3])));
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    _mm_mask_storeu_ps(to, first(n), sums);
  }

  static Floats load_scales(const std::uint8_t* from, bool half) {
    return half ? _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))
                : _mm512_loadu_ps(reinterpret_cast<const float*>(from));
  }
  template <int kBits>
  static void load_codes(const std::uint8_t* from, Ints codes[8]) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int step = 0; step < kBits; ++step) {
      const __m512i bytes = _mm512_loadu_si512(from + 64 * step);
      codes[step] = kBits == 8 ? bytes : _mm512_and_si512(bytes, low);
      if (kBits == 4) codes[step + 4] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
    }
  }
  /// Sum over the block's 32 columns, per row. vpdpbusd adds into 32 bits, so any codes fit and kRun has no meaning.
  template <int kRun>
  static Ints dot(const Ints codes[8], const std::int8_t* inputs) {
    __m512i total = _mm512_setzero_si512();
    for (int step = 0; step < 8; ++step) {
      std::int32_t four;
      __builtin_memcpy(&four, inputs + 4 * step, 4);
      total = _mm512_dpbusd_epi32(total, codes[step], _mm512_set1_epi32(four));
    }
    return total;
  }

 private:
  static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static __m256 halved(__m512 v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); }
};

void multiply_affine(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile, OutRows y) {
  layout.bits == 4 ? multiply_affine_run<Avx512, 4, 0>(x, layout, data, tile, y)
                   : multiply_affine_run<Avx512, 8, 0>(x, layout, data, tile, y);
}

}  // namespace

const KernelSet& avx512_vnni_kernels() {
  static constexpr KernelSet kSet = {
      "avx512_vnni", Avx512::kLanes, true,         quantize<Avx512>, rms_norm<Avx512>, rotate_pairs, gated<Avx512>,
      add_rows,      multiply<Avx512>, multiply_affine, multiply_int8<Avx512>};
  return kSet;
}

}  // namespace patchbay::cpu
