// The table of inner kernels that a kernel set fills. They know nothing of threads: ops.cpp cuts the work and calls them.
//
// The vector sets are compiled with their own instruction flags. So that no code with those instructions is ever shared
// with the rest of the program, their files keep everything in anonymous namespaces and call no inline function of a
// shared header (a linker may keep the AVX copy of such a function for everybody): data cross here as plain structs.
#pragma once
#include <cstdint>

#include "affine.h"
#include "patchbay/backend.h"

namespace patchbay::cpu {

/// Rows of floats; `stride` elements from one to the next.
struct Rows {
  const float* data;
  std::int64_t count, stride;
};
/// Rows of a weight as stored; they may lie at any byte.
enum class Stored { f32, f16, bf16 };
struct StoredRows {
  const void* data;
  std::int64_t count, stride;
  Stored type;
};
struct OutRows {
  float* data;
  std::int64_t stride;
};

/// Quantised tokens as the affine kernels read them (all arrays (count, blocks), codes (count, blocks * 32)).
struct AffineInput {
  std::int64_t count, blocks;
  const std::int8_t* codes;
  const float* scales;
  const float* offset_factors;   ///< scale * sum of codes; with stored offsets
  const std::int32_t* starts;    ///< -zero * sum of codes; with an implied zero
};

/// The same with one scale per token; codes (count, blocks * 32).
struct Int8Input {
  std::int64_t count, blocks;
  const std::int8_t* codes;
  const float* scales;         ///< (count)
  const std::int32_t* starts;  ///< (count): -128 * sum of codes
};

struct KernelSet {
  const char* name;
  int lanes;     ///< rows of a tile of an affine weight
  bool compact;  ///< reads fp16 scales and implied offsets
  /// One row in blocks of 32: see Q8Rows. A block with a NaN or an infinity gets scale NaN and codes 0, so that it shows.
  void (*quantize)(const float* x, std::int64_t cols, std::int8_t* codes, float* scales, std::int32_t* sums);
  void (*rms_norm)(const float* x, const float* weight, std::int64_t cols, float epsilon, float* out);
  /// Turns `pairs` pairs of one head.
  void (*rotate)(float* x, const float* cosines, const float* sines, std::int64_t pairs, bool interleaved);
  void (*gated)(Gate kind, const float* g, const float* up, std::int64_t n, float* out);
  void (*add)(float* x, const float* y, std::int64_t n);
  /// y[t][r] = x[t] . w[r] over `cols`.
  void (*multiply)(Rows x, StoredRows w, std::int64_t cols, OutRows y);
  /// y[t][r] for all t of x and the rows r of one tile; y.data is the first token's row 0 of the whole weight.
  void (*multiply_affine)(const AffineInput& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile,
                          OutRows y);
  /// Likewise for an int8 weight: the sum over all columns is an integer.
  void (*multiply_int8)(const Int8Input& x, const AffineLayout& layout, const std::uint8_t* data, std::int64_t tile, OutRows y);
};

const KernelSet& plain_kernels();
#if defined(__x86_64__)
const KernelSet& avx2_kernels();
const KernelSet& avx512_vnni_kernels();
#endif

}  // namespace patchbay::cpu
