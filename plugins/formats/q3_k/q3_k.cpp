// GGUF's Q3_K: 256 weights share one fp16 number; each group of 16 has a signed 6-bit scale, each weight a 3-bit code.
// Formulas (S1)...(S4): README.md.
#include "patchbay/plugin.h"
#include "patchbay/super_block_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q3_k_matmul, (const MatmulArgs&, gpu::Stream))  // q3_k.cu

namespace {

struct Q3_K {
  static constexpr const char* kName = "q3_k";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q3_k_matmul;
  static constexpr int kGroupColumns = 16, kZeroCode = 4, kMinCode = 0, kMaxCode = 7, kMinScale = -32, kMaxScale = 31, kIntegerBits = 4;
  static constexpr int kZeroScale = 32;  // a stored scale is 32 too large, so that it has no sign
  static constexpr Offset kOffset = Offset::none;
  using Groups = std::array<GroupScale, 16>;

  struct Stored {
    std::uint8_t high_bits[32];  // one of each code
    std::uint8_t low_bits[64];   // two of each code
    std::uint8_t scales[12];
    Half scale_step;
  };
  static_assert(sizeof(Stored) == 110);

  /// (S2), (S3)
  static Steps<16> covering(const float* w) { return fit_signed_steps<16>(w, -kZeroCode, kMaxScale, kName); }
  static Stored fit(const float* w) { return stored(covering(w)); }
  static Stored search(const float* w, const float* importance) { return stored(StepSearch<Q3_K>(w, importance).best(covering(w))); }
  static Stored stored(const Steps<16>& fitted) {
    Stored result{};
    result.scale_step = to_half(fitted.scale_step);
    for (int g = 0; g < 16; ++g) {
      const int scale = fitted.scales[g] + kZeroScale;
      result.scales[g % 8] = static_cast<std::uint8_t>(result.scales[g % 8] | (scale & 15) << g / 8 * 4);
      result.scales[8 + g % 4] = static_cast<std::uint8_t>(result.scales[8 + g % 4] | scale >> 4 << g / 4 * 2);
    }
    return result;
  }
  static Groups groups(const Stored& stored) {
    const float step = to_float(stored.scale_step);
    Groups groups;
    for (int g = 0; g < 16; ++g) {
      const int low = stored.scales[g % 8] >> g / 8 * 4 & 15, high = stored.scales[8 + g % 4] >> g / 4 * 2 & 3;
      groups[g].scale = step * static_cast<float>((low | high << 4) - kZeroScale);
    }
    return groups;
  }
  /// (S4)
  static std::uint8_t round(float w, const GroupScale& group) { return nearest_code(w, group, kZeroCode, kMaxCode); }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code - kZeroCode); }

  static void store_codes(const SuperCodes& codes, Stored& stored) {
    pack_bits<2, 32>(codes, 0, stored.low_bits);
    pack_bits<1, 32>(codes, 2, stored.high_bits);
  }
  static void load_codes(const Stored& stored, SuperCodes& codes) {
    unpack_bits<2, 32>(stored.low_bits, 0, codes);
    unpack_bits<1, 32>(stored.high_bits, 2, codes);
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Q3_K>, "q3_k", "GGUF Q3_K: groups of 16 with 6-bit scales in super-blocks of 256, 3-bit codes",
                "ggml: K-quants of GGUF files")

}  // namespace patchbay
