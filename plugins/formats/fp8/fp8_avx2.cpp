// What changed: eight codes at once become fp16 by a shift, and the processor's own conversion makes floats of them. No inline function of
// a shared header is called here: a linker may keep the AVX2 copy of it for everybody.
#include "fp8_decode.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace patchbay::fp8 {

std::int64_t decode_avx2(const std::uint8_t* codes, std::int64_t n, Widening widening, float scale, float* out) {
  const __m128i magnitude = _mm_set1_epi16(0x7F), sign = _mm_set1_epi16(0x80);
  const __m256 exact = _mm256_set1_ps(widening.factor), scales = _mm256_set1_ps(scale);
  std::int64_t c = 0;
  for (; c + 8 <= n; c += 8) {
    const __m128i eight = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + c)));
    const __m128i bits = _mm_or_si128(_mm_slli_epi16(_mm_and_si128(eight, magnitude), widening.shift),
                                      _mm_slli_epi16(_mm_and_si128(eight, sign), 8));
    _mm256_storeu_ps(out + c, _mm256_mul_ps(scales, _mm256_mul_ps(_mm256_cvtph_ps(bits), exact)));
  }
  return c;
}

}  // namespace patchbay::fp8
#endif
