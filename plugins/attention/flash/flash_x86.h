// What AVX2 and AVX-512 share: halves decoded 8 at once, 8 x 8 blocks transposed in registers. Unnamed namespace: see
// tile_math.h.
#pragma once
#include <immintrin.h>

#include "tile_math.h"

namespace patchbay::flash {
namespace {

inline void decode_halves_x86(const Half* in, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i].bits);
}

/// Element (i, j) of the block comes from row j, column i. Three rounds, each twice as wide: pairs, fours, halves.
inline void transpose_8x8(const float* rows, std::int64_t stride, float* columns) {
  __m256 row[8], pair[8], four[8];
  for (int i = 0; i < 8; ++i) row[i] = _mm256_loadu_ps(rows + i * stride);
  for (int i = 0; i < 4; ++i) {
    pair[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
    pair[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(columns + i * kTile, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
    _mm256_storeu_ps(columns + (i + 4) * kTile, _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
  }
}

inline void transpose_x86(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t d, float* columns) {
  for (std::int64_t t = 0; t < count; t += 8) {
    std::int64_t i = 0;
    for (; i + 8 <= d; i += 8) transpose_8x8(rows + t * stride + i, stride, columns + i * kTile + t);
    for (; i < d; ++i) {
      for (std::int64_t j = 0; j < 8; ++j) columns[i * kTile + t + j] = rows[(t + j) * stride + i];
    }
  }
}

}  // namespace
}  // namespace patchbay::flash
