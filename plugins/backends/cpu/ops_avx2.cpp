// Kernel set "avx2": what simd_kernels.h needs of vectors of 8 floats, with FMA and fp16 conversion.
#include <immintrin.h>

#include "simd_kernels.h"

namespace patchbay::cpu {
namespace {

struct Avx2 {
  using Floats = __m256;
  using Ints = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kTileTokens = 3;    // 12 sums, 3 inputs and a weight: all 16 registers
  static constexpr int kAffineTokens = 4;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats all(float value) { return _mm256_set1_ps(value); }
  static Floats load(const float* from) { return _mm256_loadu_ps(from); }
  static Floats load_first(const float* from, int n) { return _mm256_maskload_ps(from, first(n)); }
  /// kLanes numbers of 16 bits, or the first n of them and zeros.
  static __m128i load_16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static __m128i load_16_first(const void* from, int n) {
    __m128i numbers = _mm_setzero_si128();
    __builtin_memcpy(&numbers, from, 2 * static_cast<unsigned>(n));
    return numbers;
  }
  static Floats from_half(__m128i numbers) { return _mm256_cvtph_ps(numbers); }
  static Floats from_bfloat16(__m128i numbers) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(numbers), 16));
  }
  static void store(float* to, Floats v) { _mm256_storeu_ps(to, v); }
  static void store_first(float* to, int n, Floats v) { _mm256_maskstore_ps(to, first(n), v); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static float sqrt(float value) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(value))); }
  static Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static Floats power_of_two(Ints n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }

  static Ints zero_ints() { return _mm256_setzero_si256(); }
  static Ints all(std::int32_t value) { return _mm256_set1_epi32(value); }
  static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints max(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  static Ints round(Floats v) { return _mm256_cvtps_epi32(v); }
  static Ints magnitude_bits(Floats v) { return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7FFFFFFF)); }

  static float reduce_add(Floats v) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  static std::int32_t reduce_add(Ints v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
  }
  static std::int32_t reduce_max(Ints v) {
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1)));
  }
  static void store_codes(std::int8_t* to, Ints v) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
  }
  /// Stores the sums over the lanes of the first n of four vectors.
  static void store_sums(const Floats v[4], float* to, int n) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    n == 4 ? _mm_storeu_ps(to, sums) : _mm_maskstore_ps(to, _mm256_castsi256_si128(first(n)), sums);
  }

  static Floats load_scales(const std::uint8_t* from, bool half) {
    return half ? _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))
                : _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
  template <int kBits>
  static void load_codes(const std::uint8_t* from, Ints codes[8]) {
    const __m256i low = _mm256_set1_epi8(15);
    for (int step = 0; step < kBits; ++step) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + step);
      codes[step] = kBits == 8 ? bytes : _mm256_and_si256(bytes, low);
      if (kBits == 4) codes[step + 4] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
    }
  }
  /// Sum over the block's 32 columns, per row. kRun byte products fit 16 bits; 0: not even one, so bytes are widened first.
  template <int kRun>
  static Ints dot(const Ints codes[8], const std::int8_t* inputs) {
    __m256i total = _mm256_setzero_si256();
    if constexpr (kRun == 0) {
      for (int step = 0; step < 8; ++step) {
        const __m256i input = four(inputs, step);
        const __m256i even = _mm256_madd_epi16(_mm256_and_si256(codes[step], _mm256_set1_epi16(255)),
                                               _mm256_srai_epi16(_mm256_slli_epi16(input, 8), 8));
        const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes[step], 8), _mm256_srai_epi16(input, 8));
        total = _mm256_add_epi32(total, _mm256_add_epi32(even, odd));
      }
    } else {
      for (int run = 0; run < 8; run += kRun) {
        __m256i words = _mm256_maddubs_epi16(codes[run], four(inputs, run));
        for (int step = run + 1; step < run + kRun; ++step) {
          words = _mm256_add_epi16(words, _mm256_maddubs_epi16(codes[step], four(inputs, step)));
        }
        total = _mm256_add_epi32(total, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
      }
    }
    return total;
  }

 private:
  /// The mask of the first n lanes, n <= 8.
  static __m256i first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
  static __m256i four(const std::int8_t* inputs, int step) {
    std::int32_t bytes;
    __builtin_memcpy(&bytes, inputs + 4 * step, 4);
    return _mm256_set1_epi32(bytes);
  }
};

/// One step of a run adds two products of at most 127 * max_code to a 16-bit sum.
constexpr bool fits(int run, int max_code) { return run * 2 * 127 * max_code <= 32767; }

void multiply_affine(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile, OutRows y) {
  if (layout.bits == 4) return multiply_affine_run<Avx2, 4, 8>(x, layout, data, tile, y);
  if (fits(4, layout.max_code)) return multiply_affine_run<Avx2, 8, 4>(x, layout, data, tile, y);
  if (fits(1, layout.max_code)) return multiply_affine_run<Avx2, 8, 1>(x, layout, data, tile, y);
  multiply_affine_run<Avx2, 8, 0>(x, layout, data, tile, y);
}
static_assert(fits(8, 15));

}  // namespace

const KernelSet& avx2_kernels() {
  static constexpr KernelSet kSet = {"avx2",      Avx2::kLanes, true,           quantize<Avx2>, rms_norm<Avx2>, rotate_pairs,
                                     gated<Avx2>, add_rows,     multiply<Avx2>, multiply_affine,
                                     multiply_int8<Avx2>};
  return kSet;
}

}  // namespace patchbay::cpu
