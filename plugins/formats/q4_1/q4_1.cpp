// GGUF's Q4_1: 32 weights share an fp16 scale and an fp16 minimum; each code has 4 bits. Formulas (B1)...(B4): README.md.
#include <algorithm>

#include "patchbay/block_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q4_1_matmul, (const MatmulArgs&, gpu::Stream))  // q4_1.cu

namespace {

struct Q4_1 {
  static constexpr const char* kName = "q4_1";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q4_1_matmul;
  static constexpr int kZeroCode = 0, kMinCode = 0, kMaxCode = 15, kIntegerBits = 4;
  static constexpr Offset kOffset = Offset::any;

  struct Stored {
    Half scale, minimum;
    std::uint8_t nibbles[16];
  };
  static_assert(sizeof(Stored) == 20);

  /// (B2) Fifteen steps from the block's minimum to its maximum.
  static BlockScale fit(const BlockWeights& w) {
    const auto [low, high] = std::minmax_element(w.begin(), w.end());
    const float scale = (*high - *low) / kMaxCode;
    return {.scale = rounded_to_half(scale, kName), .offset = rounded_to_half(*low, kName),
            .inverse = inverse_of(scale), .base = *low};
  }
  /// (B3) Nearest code; adding one half before the cut rounds.
  static std::uint8_t round(float w, const BlockScale& s) { return clamped_code((w - s.base) * s.inverse + 0.5f, kMaxCode); }
  /// (B1)
  static float value(std::uint8_t code, const BlockScale& s) { return s.scale * static_cast<float>(code) + s.offset; }

  static Stored pack(const BlockScale& s, const BlockCodes& codes) {
    Stored stored{};
    stored.scale = to_half(s.scale);
    stored.minimum = to_half(s.offset);
    pack_nibbles(codes, stored.nibbles);
    return stored;
  }
  static BlockScale unpack(const Stored& stored, BlockCodes& codes) {
    unpack_nibbles(stored.nibbles, codes);
    return {.scale = to_float(stored.scale), .offset = to_float(stored.minimum)};
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, BlockFormat<Q4_1>, "q4_1", "GGUF Q4_1: blocks of 32 with an fp16 scale and minimum, 4-bit codes",
                "ggml: block formats of GGUF files")

}  // namespace patchbay
