// NormalFloat, 4 bits: levels where normally distributed weights lie, each about as often as the others. Formulas (N1)...(N6): README.md.
// The levels as printed in QLoRA's appendix E.
#include "patchbay/level_format.h"
#include "patchbay/plugin.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, nf4_matmul, (const LevelMatmulArgs&, gpu::Stream))  // nf4.cu

namespace {

struct Nf4 {
  static constexpr const char* kName = "nf4";
  static constexpr const LevelLauncher& kMatmul = gpu_launchers::nf4_matmul;
  static constexpr std::array<float, 16> kLevels = {
      {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
       0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
       0.7229568362236023f, 1.0f}};
};

}  // namespace

PATCHBAY_PLUGIN(WeightFormat, LevelFormat<Nf4>, "nf4", "NormalFloat: sixteen levels that normally distributed weights fill evenly; one scale per block",
                "Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, NeurIPS 2023 (arXiv:2305.14314)")

}  // namespace patchbay
