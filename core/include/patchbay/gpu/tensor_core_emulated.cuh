/// @file tensor_core_emulated.cuh
/// tensor_core.cuh in C++. Sums run in order of k in fp32; the hardware's order and rounding are its own: compare with a tolerance.
#pragma once
#include <cstring>
#include <type_traits>

#include "patchbay/gpu.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

template <int N, bool transposed>
void load_matrices(std::uint32_t (&r)[N], const void* row, emulator::CallSite site) {
  struct Lane { std::uint32_t* r; const std::uint16_t* row; } lane{r, static_cast<const std::uint16_t*>(row)};
  constexpr const char* kName = transposed ? "ldmatrix.trans" : "ldmatrix";
  emulator::warp_collective(~0u, {kName, emulator::WarpOperation::ldmatrix}, &lane, [](void** lanes, unsigned active) {
    if (active != ~0u) emulator::fail("ldmatrix needs all 32 lanes");
    std::uint16_t m[N][8][8];
    for (int l = 0; l < N * 8; ++l) {
      const std::uint16_t* from = static_cast<Lane*>(lanes[l])->row;
      emulator::note_lane_access(l, from, 16, false);
      std::memcpy(m[l / 8][l % 8], from, 16);
    }
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < N; ++i) {
        const int g = l / 4, t = l % 4 * 2;
        const std::uint32_t low = transposed ? m[i][t][g] : m[i][g][t], high = transposed ? m[i][t + 1][g] : m[i][g][t + 1];
        static_cast<Lane*>(lanes[l])->r[i] = low | high << 16;
      }
  }, site);
}

/// The element of T at `index` in a register.
template <class T> auto element_of(std::uint32_t r, int index) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>;
  const Bits bits = static_cast<Bits>(r >> (8 * static_cast<int>(sizeof(T)) * index));
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  if constexpr (std::is_integral_v<T>) return static_cast<int>(value);
  else return static_cast<float>(value);
}

template <class T, class Sum>
void multiply_matrices(Sum (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], emulator::CallSite site) {
  static_assert(std::is_same_v<T, signed char> ? std::is_same_v<Sum, int> : std::is_same_v<Sum, float>,
                "8-bit integers are summed in int, floats in float");
  struct Lane { Sum* d; const std::uint32_t *a, *b; } lane{d, a, b};
  constexpr int kPerRegister = 4 / static_cast<int>(sizeof(T)), kDepth = 8 * kPerRegister;
  constexpr const char* kName = kDepth == 16 ? "mma.m16n8k16" : std::is_same_v<T, signed char> ? "mma.m16n8k32.s8" : "mma.m16n8k32.f8";
  emulator::warp_collective(~0u, {kName, emulator::WarpOperation::mma, false, 2 * 16 * 8 * kDepth}, &lane,
                            [](void** lanes, unsigned active) {
    if (active != ~0u) emulator::fail("mma needs all 32 lanes");
    Sum left[16][kDepth], right[kDepth][8];
    for (int l = 0; l < 32; ++l) {
      const Lane& own = *static_cast<Lane*>(lanes[l]);
      const int g = l / 4, t = l % 4 * kPerRegister;
      for (int e = 0; e < kPerRegister; ++e) {
        for (int i = 0; i < 4; ++i) left[g + i % 2 * 8][t + i / 2 * (kDepth / 2) + e] = element_of<T>(own.a[i], e);
        for (int i = 0; i < 2; ++i) right[t + i * (kDepth / 2) + e][g] = element_of<T>(own.b[i], e);
      }
    }
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) {
        Sum& sum = static_cast<Lane*>(lanes[l])->d[i];
        for (int k = 0; k < kDepth; ++k) sum += left[l / 4 + i / 2 * 8][k] * right[k][l % 4 * 2 + i % 2];
      }
  }, site);
}

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
