// GGUF's Q8_0: 32 weights share one fp16 scale; each code is a signed byte. Formulas (B1)...(B4): README.md.
#include <algorithm>

#include "patchbay/block_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, q8_0_matmul, (const MatmulArgs&, gpu::Stream))  // q8_0.cu

namespace {

struct Q8_0 {
  static constexpr const char* kName = "q8_0";
  static constexpr const MatmulLauncher& kMatmul = gpu_launchers::q8_0_matmul;
  /// Inside patchbay codes are unsigned: a file's -128..127 is 0..255 here. Rounding uses -127..127 only.
  static constexpr int kZeroCode = 128, kLargest = 127, kMinCode = kZeroCode - kLargest, kMaxCode = kZeroCode + kLargest, kIntegerBits = 8;
  static constexpr Offset kOffset = Offset::none;

  struct Stored {
    Half scale;
    std::int8_t codes[kBlockColumns];
  };
  static_assert(sizeof(Stored) == 34);

  /// (B2) The largest magnitude gets code 127 or -127.
  static BlockScale fit(const BlockWeights& w) {
    const float scale = std::fabs(signed_extreme(w)) / kLargest;
    return {.scale = rounded_to_half(scale, kName), .inverse = inverse_of(scale)};
  }
  /// (B3) Nearest code; halves go away from zero, so that the magnitude is cut after adding one half, exactly.
  static std::uint8_t round(float w, const BlockScale& s) {
    const float x = w * s.inverse, magnitude = std::fabs(x);
    const int whole = clamped_code(magnitude, kLargest);
    const int code = std::min(whole + (magnitude - static_cast<float>(whole) >= 0.5f ? 1 : 0), kLargest);
    return static_cast<std::uint8_t>(kZeroCode + (x < 0.0f ? -code : code));
  }
  /// (B1)
  static float value(std::uint8_t code, const BlockScale& s) { return s.scale * static_cast<float>(code - kZeroCode); }

  static Stored pack(const BlockScale& s, const BlockCodes& codes) {
    Stored stored{};
    stored.scale = to_half(s.scale);
    for (int j = 0; j < kBlockColumns; ++j) stored.codes[j] = static_cast<std::int8_t>(codes[j] - kZeroCode);
    return stored;
  }
  static BlockScale unpack(const Stored& stored, BlockCodes& codes) {
    for (int j = 0; j < kBlockColumns; ++j) codes[j] = static_cast<std::uint8_t>(stored.codes[j] + kZeroCode);
    return {.scale = to_float(stored.scale)};
  }
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, BlockFormat<Q8_0>, "q8_0", "GGUF Q8_0: blocks of 32 with one fp16 scale, signed 8-bit codes",
                "ggml: block formats of GGUF files")

}  // namespace patchbay
