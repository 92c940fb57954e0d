// What changed: 16 floats per instruction: half as many instructions as AVX2 for the same sums.
#include "flash.h"

#if defined(__AVX512F__)
#include "flash_x86.h"

namespace patchbay::flash {
namespace {

struct Avx512 {
  typedef float Vector __attribute__((vector_size(64)));
  typedef std::int32_t Integers __attribute__((vector_size(64)));
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static constexpr auto decode_halves = decode_halves_x86;
  static constexpr auto transpose = transpose_x86;
};

}  // namespace

const TileKernels kAvx512 = TileMath<Avx512>::kernels();

}  // namespace patchbay::flash
#else
namespace patchbay::flash {
const TileKernels kAvx512{};  // never chosen: see the look at cpuid in flash.cpp
}  // namespace patchbay::flash
#endif
