// GGUF's Q5_K: Q4_K with a fifth bit for each code. Formulas (S1)...(S4): README.md.
#include "patchbay/plugin.h"
#include "patchbay/six_bit_scales.h"
#include "patchbay/super_block_search.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q5_k_matmul, (const MatmulArgs&, gpu::Stream))  // q5_k.cu

namespace {

struct Q5_K {
  static constexpr const char* kName = "q5_k";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q5_k_matmul;
  static constexpr int kGroupColumns = 32, kZeroCode = 0, kMinCode = 0, kMaxCode = 31, kMinScale = 0, kMaxScale = 63, kIntegerBits = 8;
  static constexpr Offset kOffset = Offset::at_most_zero;
  using Groups = std::array<GroupScale, 8>;

  struct Stored {
    Half scale_step, minimum_step;
    std::uint8_t scales_and_minima[12];
    std::uint8_t fifth_bits[32];
    std::uint8_t nibbles[128];
  };
  static_assert(sizeof(Stored) == 176);

  /// (S2), (S3)
  static Steps<8> covering(const float* w) { return fit_steps_and_minima<8>(w, kMaxCode, kMaxScale, kName); }
  static Stored fit(const float* w) { return stored(covering(w)); }
  static Stored search(const float* w, const float* importance) { return stored(StepSearch<Q5_K>(w, importance).best(covering(w))); }
  static Stored stored(const Steps<8>& fitted) {
    Stored result{to_half(fitted.scale_step), to_half(fitted.minimum_step), {}, {}, {}};
    pack_six_bits(fitted.scales, fitted.minima, result.scales_and_minima);
    return result;
  }
  static Groups groups(const Stored& stored) {
    return six_bit_groups(to_float(stored.scale_step), to_float(stored.minimum_step), stored.scales_and_minima);
  }
  /// (S4)
  static std::uint8_t round(float w, const GroupScale& group) { return nearest_code(w, group, kZeroCode, kMaxCode); }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code) + group.offset; }

  static void store_codes(const SuperCodes& codes, Stored& stored) {
    pack_bits<4, 32>(codes, 0, stored.nibbles);
    pack_bits<1, 32>(codes, 4, stored.fifth_bits);
  }
  static void load_codes(const Stored& stored, SuperCodes& codes) {
    unpack_bits<4, 32>(stored.nibbles, 0, codes);
    unpack_bits<1, 32>(stored.fifth_bits, 4, codes);
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Q5_K>, "q5_k", "GGUF Q5_K: groups of 32 with 6-bit scales and minima in super-blocks of 256, 5-bit codes",
                "ggml: K-quants of GGUF files")

}  // namespace patchbay
