// GGUF's Q2_K: 256 weights share two fp16 numbers; each group of 16 has a 4-bit scale and a 4-bit minimum, each weight a 2-bit code.
// Formulas (S1)...(S4): README.md.
#include "patchbay/plugin.h"
#include "patchbay/super_block_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q2_k_matmul, (const MatmulArgs&, gpu::Stream))  // q2_k.cu

namespace {

struct Q2_K {
  static constexpr const char* kName = "q2_k";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q2_k_matmul;
  static constexpr int kGroupColumns = 16, kZeroCode = 0, kMinCode = 0, kMaxCode = 3, kMinScale = 0, kMaxScale = 15, kIntegerBits = 4;
  static constexpr Offset kOffset = Offset::at_most_zero;
  using Groups = std::array<GroupScale, 16>;

  struct Stored {
    std::uint8_t scales_and_minima[16];  // scale in the low half
    std::uint8_t codes[64];
    Half scale_step, minimum_step;
  };
  static_assert(sizeof(Stored) == 84);

  /// (S2), (S3)
  static Steps<16> covering(const float* w) { return fit_steps_and_minima<16>(w, kMaxCode, kMaxScale, kName); }
  static Stored fit(const float* w) { return stored(covering(w)); }
  static Stored search(const float* w, const float* importance) { return stored(StepSearch<Q2_K>(w, importance).best(covering(w))); }
  static Stored stored(const Steps<16>& fitted) {
    Stored result{{}, {}, to_half(fitted.scale_step), to_half(fitted.minimum_step)};
    for (int g = 0; g < 16; ++g) result.scales_and_minima[g] = static_cast<std::uint8_t>(fitted.scales[g] | fitted.minima[g] << 4);
    return result;
  }
  static Groups groups(const Stored& stored) {
    const float scale_step = to_float(stored.scale_step), minimum_step = to_float(stored.minimum_step);
    Groups groups;
    for (int g = 0; g < 16; ++g) {
      const int scale = stored.scales_and_minima[g] & 15, minimum = stored.scales_and_minima[g] >> 4;
      groups[g] = {scale_step * static_cast<float>(scale), -(minimum_step * static_cast<float>(minimum))};
    }
    return groups;
  }
  /// (S4)
  static std::uint8_t round(float w, const GroupScale& group) { return nearest_code(w, group, kZeroCode, kMaxCode); }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code) + group.offset; }

  static void store_codes(const SuperCodes& codes, Stored& stored) { pack_bits<2, 32>(codes, 0, stored.codes); }
  static void load_codes(const Stored& stored, SuperCodes& codes) { unpack_bits<2, 32>(stored.codes, 0, codes); }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Q2_K>, "q2_k", "GGUF Q2_K: groups of 16 with 4-bit scales and minima in super-blocks of 256, 2-bit codes",
                "ggml: K-quants of GGUF files")

}  // namespace patchbay
