// What changed: one instruction converts 8 values, rounding to nearest even as half.h does.
#include "fp16.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace patchbay::fp16 {

#if defined(__F16C__)
std::int64_t encode_f16c(const float* in, std::int64_t n, Half* out) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}
std::int64_t decode_f16c(const Half* in, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  return i;
}
#else
std::int64_t encode_f16c(const float*, std::int64_t, Half*) { return 0; }
std::int64_t decode_f16c(const Half*, std::int64_t, float*) { return 0; }
#endif

}  // namespace patchbay::fp16
