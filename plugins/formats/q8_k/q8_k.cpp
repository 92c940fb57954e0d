// GGUF's Q8_K: 256 weights share one fp32 scale; each code is a signed byte. Formulas (S1)...(S4): README.md.
#include "patchbay/plugin.h"
#include "patchbay/super_block_format.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q8_k_matmul, (const MatmulArgs&, gpu::Stream))  // q8_k.cu

namespace {

struct Q8_K {
  static constexpr const char* kName = "q8_k";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q8_k_matmul;
  /// Inside patchbay codes are unsigned: a file's -128..127 is 0..255 here. Rounding uses -127..127 only.
  static constexpr int kGroupColumns = 32, kZeroCode = 128, kLargest = 127, kIntegerBits = 8;
  using Groups = std::array<GroupScale, 8>;

  struct Stored {
    float scale;
    std::int8_t codes[256];
    std::int16_t sums[16];  // of 16 codes each
  };
  static_assert(sizeof(Stored) == 292);

  /// (S2)
  static Stored fit(const float* w) {
    Stored stored{};
    stored.scale = std::fabs(extreme_of(w, kSuperColumns)) / kLargest;
    return stored;
  }
  static Groups groups(const Stored& stored) {
    Groups groups;
    groups.fill({.scale = stored.scale});
    return groups;
  }
  /// (S3)
  static std::uint8_t round(float w, const GroupScale& group) {
    return std::max<std::uint8_t>(nearest_code(w, group, kZeroCode, kZeroCode + kLargest), kZeroCode - kLargest);
  }
  /// (S1)
  static float value(std::uint8_t code, const GroupScale& group) { return group.scale * static_cast<float>(code - kZeroCode); }

  static void store_codes(const SuperCodes& codes, Stored& stored) {
    for (int c = 0; c < kSuperColumns; ++c) {
      stored.codes[c] = static_cast<std::int8_t>(codes[c] - kZeroCode);
      stored.sums[c / 16] = static_cast<std::int16_t>(stored.sums[c / 16] + stored.codes[c]);  // (S4)
    }
  }
  static void load_codes(const Stored& stored, SuperCodes& codes) {
    for (int c = 0; c < kSuperColumns; ++c) codes[c] = static_cast<std::uint8_t>(stored.codes[c] + kZeroCode);
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, SuperBlockFormat<Q8_K>, "q8_k", "GGUF Q8_K: super-blocks of 256 with one fp32 scale, signed 8-bit codes",
                "ggml: K-quants of GGUF files")

}  // namespace patchbay
