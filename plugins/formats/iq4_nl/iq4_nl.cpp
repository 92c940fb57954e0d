// GGUF's IQ4_NL: 32 weights share one fp16 scale; each code names one of sixteen unevenly spaced levels. Formulas (B1)...(B4): README.md.
#include "patchbay/block_format.h"
#include "patchbay/iq4_levels.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, iq4_nl_matmul, (const MatmulArgs&, gpu::Stream))  // iq4_nl.cu

namespace {

struct Iq4Nl {
  static constexpr const char* kName = "iq4_nl";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::iq4_nl_matmul;
  static constexpr int kZeroCode = kIq4Zero, kIntegerBits = 8;
  static constexpr int kMinCode = kIq4Zero + kIq4Levels.front(), kMaxCode = kIq4Zero + kIq4Levels.back();
  static constexpr Offset kOffset = Offset::none;

  struct Stored {
    Half scale;
    std::uint8_t nibbles[16];
  };
  static_assert(sizeof(Stored) == 18);

  /// (B2) The weight of largest magnitude gets the first level, -127, whatever its sign.
  static BlockScale fit(const BlockWeights& w) {
    const float scale = rounded_to_half(signed_extreme(w) / static_cast<float>(kIq4Levels[0]), kName);
    return {.scale = scale, .inverse = inverse_of(scale)};
  }
  /// (B3)
  static std::uint8_t round(float w, const BlockScale& s) { return iq4_code(nearest_iq4_index(w * s.inverse)); }
  /// (B1)
  static float value(std::uint8_t code, const BlockScale& s) { return s.scale * static_cast<float>(code - kZeroCode); }

  static Stored pack(const BlockScale& s, const BlockCodes& codes) {
    Stored stored{to_half(s.scale), {}};
    BlockCodes indices;
    for (int j = 0; j < kBlockColumns; ++j) indices[j] = static_cast<std::uint8_t>(iq4_index(codes[j]));
    pack_nibbles(indices, stored.nibbles);
    return stored;
  }
  static BlockScale unpack(const Stored& stored, BlockCodes& codes) {
    unpack_nibbles(stored.nibbles, codes);
    for (std::uint8_t& code : codes) code = iq4_code(code);
    return {.scale = to_float(stored.scale)};
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, BlockFormat<Iq4Nl>, "iq4_nl", "GGUF IQ4_NL: blocks of 32 with one fp16 scale, sixteen levels closer together near 0",
                "ggml: block formats of GGUF files")

}  // namespace patchbay
