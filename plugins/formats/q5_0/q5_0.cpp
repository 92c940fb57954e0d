// GGUF's Q5_0: 32 weights share one fp16 scale; each code has 5 bits, the fifth stored apart. Formulas (B1)...(B4): README.md.
#include "patchbay/block_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q5_0_matmul, (const MatmulArgs&, gpu::Stream))  // q5_0.cu

namespace {

struct Q5_0 {
  static constexpr const char* kName = "q5_0";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q5_0_matmul;
  static constexpr int kZeroCode = 16, kMinCode = 0, kMaxCode = 31, kIntegerBits = 8;
  static constexpr Offset kOffset = Offset::none;

  struct Stored {
    Half scale;
    std::uint8_t fifth_bits[4];
    std::uint8_t nibbles[16];
  };
  static_assert(sizeof(Stored) == 22);

  /// (B2) The weight of largest magnitude, whatever its sign, gets code 0, that is -16.
  static BlockScale fit(const BlockWeights& w) {
    const float scale = signed_extreme(w) / -kZeroCode;
    return {.scale = rounded_to_half(scale, kName), .inverse = inverse_of(scale)};
  }
  /// (B3) Nearest code. Adding one half before the cut rounds; the other end of the range is clamped.
  static std::uint8_t round(float w, const BlockScale& s) { return clamped_code(w * s.inverse + (kZeroCode + 0.5f), kMaxCode); }
  /// (B1)
  static float value(std::uint8_t code, const BlockScale& s) { return s.scale * static_cast<float>(code - kZeroCode); }

  static Stored pack(const BlockScale& s, const BlockCodes& codes) {
    Stored stored{};
    stored.scale = to_half(s.scale);
    pack_fifth_bits(codes, stored.fifth_bits);
    pack_nibbles(codes, stored.nibbles);
    return stored;
  }
  static BlockScale unpack(const Stored& stored, BlockCodes& codes) {
    unpack_nibbles(stored.nibbles, codes);
    unpack_fifth_bits(stored.fifth_bits, codes);
    return {.scale = to_float(stored.scale)};
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, BlockFormat<Q5_0>, "q5_0", "GGUF Q5_0: blocks of 32 with one fp16 scale, 5-bit codes around 16",
                "ggml: block formats of GGUF files")

}  // namespace patchbay
