// ldmatrix and mma.sync for the emulator, by the fragments that gpu/tensor_core.cuh shows. Here and not in the header, so that the work inside is not
// instrumented. Sums run in order of k in fp32; the hardware's order and rounding are its own.
#include <cstring>
#include <string_view>
#include <type_traits>

#include "gpu/state.h"

namespace patchbay::gpu::emulator {
namespace {

template <int N, bool transposed>
void load(void** lanes, unsigned active) {
  if (active != ~0u) fail("ldmatrix needs all 32 lanes");
  std::uint16_t m[N][8][8];
  for (int l = 0; l < N * 8; ++l) {
    const void* row = static_cast<const MatrixLoad*>(lanes[l])->row;
    note_lane_access(l, row, 16, false);
    std::memcpy(m[l / 8][l % 8], row, 16);
  }
  for (int l = 0; l < 32; ++l)
    for (int i = 0; i < N; ++i) {
      const int g = l / 4, t = l % 4 * 2;
      const std::uint32_t low = transposed ? m[i][t][g] : m[i][g][t], high = transposed ? m[i][t + 1][g] : m[i][g][t + 1];
      static_cast<const MatrixLoad*>(lanes[l])->registers[i] = low | high << 16;
    }
}

/// The element of T at `index` in a register.
template <class T, class Sum> Sum element_of(std::uint32_t r, int index) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>;
  const Bits bits = static_cast<Bits>(r >> (8 * static_cast<int>(sizeof(T)) * index));
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return static_cast<Sum>(value);
}

template <class T, class Sum>
void multiply(void** lanes, unsigned active) {
  if (active != ~0u) fail("mma needs all 32 lanes");
  constexpr int kPerRegister = 4 / static_cast<int>(sizeof(T)), kDepth = 8 * kPerRegister;
  Sum left[16][kDepth], right[kDepth][8];
  for (int l = 0; l < 32; ++l) {
    const auto& own = *static_cast<const MatrixProduct*>(lanes[l]);
    const int g = l / 4, t = l % 4 * kPerRegister;
    for (int e = 0; e < kPerRegister; ++e) {
      for (int i = 0; i < 4; ++i) left[g + i % 2 * 8][t + i / 2 * (kDepth / 2) + e] = element_of<T, Sum>(own.a[i], e);
      for (int i = 0; i < 2; ++i) right[t + i * (kDepth / 2) + e][g] = element_of<T, Sum>(own.b[i], e);
    }
  }
  for (int l = 0; l < 32; ++l)
    for (int i = 0; i < 4; ++i) {
      Sum& sum = static_cast<Sum*>(static_cast<const MatrixProduct*>(lanes[l])->d)[i];
      for (int k = 0; k < kDepth; ++k) sum += left[l / 4 + i / 2 * 8][k] * right[k][l % 4 * 2 + i % 2];
    }
}

constexpr std::int64_t flops(int depth) { return 2 * 16 * 8 * depth; }

}  // namespace

void load_matrices(MatrixLoad lane, int count, bool transposed, CallSite site) {
  const Collective what{transposed ? "ldmatrix.trans" : "ldmatrix", WarpOperation::ldmatrix};
  const WarpFunction compute = count == 1   ? (transposed ? load<1, true> : load<1, false>)
                               : count == 2 ? (transposed ? load<2, true> : load<2, false>)
                                            : (transposed ? load<4, true> : load<4, false>);
  run_collective(~0u, what, &lane, compute, site, __builtin_return_address(0));
}

void multiply_matrices(MatrixNumber number, MatrixProduct lane, CallSite site) {
  struct Kind { const char* name; int depth; WarpFunction compute; };
  static constexpr Kind kKinds[] = {{"mma.m16n8k16", 16, multiply<__half, float>},
                                    {"mma.m16n8k16", 16, multiply<__nv_bfloat16, float>},
                                    {"mma.m16n8k32.s8", 32, multiply<signed char, int>},
                                    {"mma.m16n8k32.f8", 32, multiply<__nv_fp8_e4m3, float>},
                                    {"mma.m16n8k32.f8", 32, multiply<__nv_fp8_e5m2, float>}};
  const Kind& kind = kKinds[static_cast<int>(number)];
  if (const int architecture = worker->launch->architecture; architecture < 89 && std::string_view(kind.name).ends_with("f8"))
    fail(std::string(kind.name) + " at " + text_of(site) + ": products of 8-bit floats need sm_89, and this is sm_" +
         std::to_string(architecture));
  run_collective(~0u, {kind.name, WarpOperation::mma, false, flops(kind.depth)}, &lane, kind.compute, site, __builtin_return_address(0));
}

}  // namespace patchbay::gpu::emulator
