// The plain kernels: no instruction beyond what every machine of the family has.
#include "patchbay/half.h"
#include "tile_math.h"

namespace patchbay::flash {
namespace {

struct Plain {
  typedef float Vector __attribute__((vector_size(16)));
  typedef std::int32_t Integers __attribute__((vector_size(16)));
  static Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }
  static void decode_halves(const Half* in, std::int64_t n, float* out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(in[i]);
  }
  static void transpose(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t d, float* columns) {
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t t = 0; t < count; ++t) columns[i * kTile + t] = rows[t * stride + i];
    }
  }
};

}  // namespace

const TileKernels kPlain = TileMath<Plain>::kernels();

}  // namespace patchbay::flash
