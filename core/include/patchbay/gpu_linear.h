/// @file gpu_linear.h
/// A weight on a GPU: uploaded once, as its format packs it, and multiplied by the format's kernels.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "patchbay/gpu/host.h"
#include "patchbay/gpu/matmul.h"
#include "patchbay/gpu_device.h"
#include "patchbay/params.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// A format's launcher in every world: PATCHBAY_GPU_LAUNCHER(void, q4_0_matmul, (const MatmulArgs&, gpu::Stream)).
using MatmulLauncher = gpu::Launcher<void(const MatmulArgs&, gpu::Stream)>;

/// Up to so many tokens run the kernel of phase decode, more the one of prefill. Where the two differ, so do the last bits of a
/// token's result: name one kernel for both where results must not depend on the batch.
inline constexpr std::int64_t kDecodeTokens = 4;

/// Whether cuBLAS can be loaded here.
PATCHBAY_API bool finds_cublas();

/// Packed weights on a GPU, worst to best.
inline constexpr KernelInfo kGpuPackedNaive{"naive", "cuda", "both", "a thread per output decodes its whole row: any shape"};
inline constexpr KernelInfo kGpuPackedTensorCore{"tensor_core", "cuda", "both",
                                                 "decodes tiles into shared memory, where tensor cores read them: each weight is "
                                                 "decoded once for 64 tokens (needs a multiple of 16 columns)"};
inline constexpr KernelInfo kGpuPackedGemv{
    "gemv", "cuda", "decode",
    "decodes in registers, a block's threads side by side along four rows: a few tokens cost no more than reading the weight"};

/// w uploaded to the device of `ops`, its kernels chosen by name from those of `kernels` with backend "cuda". `launch` runs
/// args.kernel in the device's world. `plain`: the weight lies there as plain numbers. @throws Error when a kernel is not there.
PATCHBAY_API std::unique_ptr<LinearKernel> gpu_linear(std::string label, const PackedWeight& w, Ops& ops,
                                                      std::span<const KernelInfo> kernels, const KernelChoice& choice,
                                                      std::function<void(const MatmulArgs&, gpu::Stream)> launch,
                                                      bool plain = false);
inline std::unique_ptr<LinearKernel> gpu_linear(std::string label, const PackedWeight& w, Ops& ops,
                                                std::span<const KernelInfo> kernels, const KernelChoice& choice,
                                                const MatmulLauncher& launcher, bool plain = false) {
  return gpu_linear(std::move(label), w, ops, kernels, choice, gpu::pick(launcher, gpu::world_of(ops.device())), plain);
}

}  // namespace patchbay
