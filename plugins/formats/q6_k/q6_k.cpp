// GGUF's Q6_K: 256 weights share one fp16 number; each group of 16 has a signed 8-bit scale, each weight a 6-bit code.
// Formulas (S1)...(S4): README.md.
#include "patchbay/plugin.h"
#include "patchbay/super_block_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q6_k_matmul, (const MatmulArgs&, gpu::Stream))  // q6_k.cu

namespace {

struct Q6_K {
  static constexpr const char* kName = "q6_k";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q6_k_matmul;
  static constexpr int kGroupColumns = 16, kZeroCode = 32, kMinCode = 0, kMaxCode = 63, kMinScale = -128, kMaxScale = 127, kIntegerBits = 8;
  static constexpr Offset kOffset = Offset::none;
  using Groups = std::array<GroupScale, 16>;

  struct Stored {
    std::uint8_t low_bits[128];  // four of each code
    std::uint8_t high_bits[64];  // two of each code
    std::int8_t scales[16];
    Half scale_step;
  };
  static_assert(sizeof(Stored) == 210);

  /// (S2), (S3)
  static Steps<16> covering(const float* w) { return fit_signed_steps<16>(w, -kZeroCode, kMaxScale, kName); }
  static Stored fit(const float* w) { return stored(covering(w)); }
  static Stored search(const float* w, const float* importance) { return stored(StepSearch<Q6_K>(w, importance).best(covering(w))); }
  static Stored stored(const Steps<16>& fitted) {
    Stored result{};
    result.scale_step = to_half(fitted.scale_step);
    for (int g = 0; g < 16; ++g) result.scales[g] = static_cast<std::int8_t>(fitted.scales[g]);
    return result;
  }
  static Groups groups(const Stored& stored) {
    Groups groups;
    for (int g = 0; g < 16; ++g) groups[g].scale = to_float(stored.scale_step) * static_cast<float>(stored.scales[g]);
    return groups;
  }
  /// (S4)
  static std::uint8_t round(float w, const GroupScale& group) { return nearest_code(w, group, kZeroCode, kMaxCode); }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code - kZeroCode); }

  static void store_codes(const SuperCodes& codes, Stored& stored) {
    pack_bits<4, 64>(codes, 0, stored.low_bits);
    pack_bits<2, 32>(codes, 4, stored.high_bits);
  }
  static void load_codes(const Stored& stored, SuperCodes& codes) {
    unpack_bits<4, 64>(stored.low_bits, 0, codes);
    unpack_bits<2, 32>(stored.high_bits, 4, codes);
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Q6_K>, "q6_k", "GGUF Q6_K: groups of 16 with 8-bit scales in super-blocks of 256, 6-bit codes",
                "ggml: K-quants of GGUF files")

}  // namespace patchbay
