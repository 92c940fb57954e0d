// What changed: 8 floats per instruction, multiply and add in one rounding.
#include "flash.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "flash_x86.h"

namespace patchbay::flash {
namespace {

struct Avx2 {
  typedef float Vector __attribute__((vector_size(32)));
  typedef std::int32_t Integers __attribute__((vector_size(32)));
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static constexpr auto decode_halves = decode_halves_x86;
  static constexpr auto transpose = transpose_x86;
};

}  // namespace

const TileKernels kAvx2 = TileMath<Avx2>::kernels();

}  // namespace patchbay::flash
#else
namespace patchbay::flash {
const TileKernels kAvx2{};  // never chosen: see the look at cpuid in flash.cpp
}  // namespace patchbay::flash
#endif
