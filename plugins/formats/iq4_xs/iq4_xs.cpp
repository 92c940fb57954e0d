// GGUF's IQ4_XS: the levels of IQ4_NL; 256 weights share one fp16 number, and each group of 32 has a signed 6-bit scale.
// Formulas (S1)...(S5): README.md.
#include "patchbay/iq4_levels.h"
#include "patchbay/plugin.h"
#include "patchbay/super_block_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, iq4_xs_matmul, (const MatmulArgs&, gpu::Stream))  // iq4_xs.cu

namespace {

struct Iq4Xs {
  static constexpr const char* kName = "iq4_xs";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::iq4_xs_matmul;
  static constexpr int kGroupColumns = 32, kZeroCode = kIq4Zero, kMinScale = -32, kMaxScale = 31, kIntegerBits = 8;
  static constexpr int kMinCode = kIq4Zero + kIq4Levels.front(), kMaxCode = kIq4Zero + kIq4Levels.back();
  static constexpr Offset kOffset = Offset::none;
  static constexpr int kZeroScale = 32;  // a stored scale is 32 too large, so that it has no sign
  using Groups = std::array<GroupScale, 8>;

  struct Stored {
    Half scale_step;
    std::uint8_t scales_high[2];  // two bits of each scale
    std::uint8_t scales_low[4];   // four bits of each scale
    std::uint8_t nibbles[128];
  };
  static_assert(sizeof(Stored) == 136);

  /// (S2), (S3)
  static Steps<8> covering(const float* w) { return fit_signed_steps<8>(w, kIq4Levels[0], kMaxScale, kName); }
  static Stored fit(const float* w) { return stored(covering(w)); }
  static Stored search(const float* w, const float* importance) { return stored(StepSearch<Iq4Xs>(w, importance).best(covering(w))); }
  static Stored stored(const Steps<8>& fitted) {
    Stored result{};
    result.scale_step = to_half(fitted.scale_step);
    for (int g = 0; g < 8; ++g) {
      const int scale = fitted.scales[g] + kZeroScale;
      result.scales_low[g / 2] = static_cast<std::uint8_t>(result.scales_low[g / 2] | (scale & 15) << g % 2 * 4);
      result.scales_high[g / 4] = static_cast<std::uint8_t>(result.scales_high[g / 4] | scale >> 4 << g % 4 * 2);
    }
    return result;
  }
  static Groups groups(const Stored& stored) {
    const float step = to_float(stored.scale_step);
    Groups groups;
    for (int g = 0; g < 8; ++g) {
      const int low = stored.scales_low[g / 2] >> g % 2 * 4 & 15, high = stored.scales_high[g / 4] >> g % 4 * 2 & 3;
      groups[g].scale = step * static_cast<float>((low | high << 4) - kZeroScale);
    }
    return groups;
  }
  /// (S4)
  static std::uint8_t round(float w, const GroupScale& group) {
    const float inverse = 1.0f / group.scale;
    return iq4_code(nearest_iq4_index(std::isfinite(inverse) ? w * inverse : 0.0f));
  }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code - kZeroCode); }

  static void store_codes(const SuperCodes& codes, Stored& stored) {
    SuperCodes indices;
    for (int c = 0; c < kSuperColumns; ++c) indices[c] = static_cast<std::uint8_t>(iq4_index(codes[c]));
    pack_bits<4, 16>(indices, 0, stored.nibbles);
  }
  static void load_codes(const Stored& stored, SuperCodes& codes) {
    unpack_bits<4, 16>(stored.nibbles, 0, codes);
    for (std::uint8_t& code : codes) code = iq4_code(code);
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Iq4Xs>, "iq4_xs", "GGUF IQ4_XS: the levels of IQ4_NL, groups of 32 with 6-bit scales in super-blocks of 256",
                "ggml: block formats of GGUF files")

}  // namespace patchbay
