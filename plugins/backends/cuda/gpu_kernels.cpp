#include "gpu_kernels.h"

#include <algorithm>
#include <string>

namespace patchbay {
namespace {

constexpr std::string_view kFast = "fast", kFused = "fused", kSeparate = "separate";

constexpr KernelInfo kRmsNorm[] = {
    {"naive", "cuda", "both", "one thread per row: the formula"},
    {"block", "cuda", "both", "one block per row: neighbouring threads read neighbouring values, and the sum is a tree"},
    {kFast, "cuda", "both", "16 bytes per load: an eighth of the instructions for fp16"},
};
constexpr KernelInfo kLayerNorm[] = {
    {"naive", "cuda", "both", "one thread per row: the formula"},
    {kFast, "cuda", "both", "one block per row, 16 bytes per load; the second pass finds the row in the L1 cache"},
};
constexpr KernelInfo kRope[] = {
    {"naive", "cuda", "both", "one thread per pair"},
    {kFast, "cuda", "both", "16 bytes per load and thread: that many pairs at once"},
};
constexpr KernelInfo kWriteKv[] = {
    {"naive", "cuda", "both", "one thread per row of a token and head"},
    {kFast, "cuda", "both", "one warp per row: neighbouring lanes store neighbouring values, and the largest is found by shuffles"},
};
constexpr KernelInfo kByValue[] = {
    {"naive", "cuda", "both", "one thread per value"},
    {kFast, "cuda", "both", "16 bytes per load and thread: fewer requests for the same bytes"},
};
constexpr KernelInfo kSoftmax[] = {
    {"naive", "cuda", "both", "one thread per row, three passes: the formula"},
    {"block", "cuda", "both", "one block per row, three passes"},
    {kFast, "cuda", "both", "two passes: maximum and sum together, the sum corrected when the maximum moves; 16 bytes per load"},
};
constexpr KernelInfo kSample[] = {
    {"naive", "cuda", "both", "a threshold is found bit by bit: 64 passes over the row for each of top-k and top-p"},
    {kFast, "cuda", "both", "8 bits per pass, by a histogram in shared memory: 8 passes, as a rule 4"},
};
constexpr KernelInfo kQuantizeRows[] = {
    {"naive", "cuda", "both", "one thread per row: the formula"},
    {kFast, "cuda", "both", "one block per row, 16 bytes per load; the second pass finds the row in the L1 cache"},
};
constexpr KernelInfo kAddRmsNorm[] = {
    {kSeparate, "cuda", "both", "add, then rms_norm: two launches, and the sum is read back from memory"},
    {kFused, "cuda", "both", "one launch: the sum is squared while it is at hand; the bits of the two fast kernels"},
};
constexpr KernelInfo kRopeWriteKv[] = {
    {kSeparate, "cuda", "both", "rope of queries, rope of keys, write_kv: three launches"},
    {kFused, "cuda", "both", "one launch: keys turn on their way into the cache; the bits of the fast kernels"},
};
constexpr KernelInfo kAddRmsNormQuantize[] = {
    {kSeparate, "cuda", "both", "add_rms_norm, then quantize_rows: the normalised row is written and read back"},
    {kFused, "cuda", "both", "one launch: the normalised row never leaves the registers; the bits of the fast kernels"},
};

using enum GpuOperation;
constexpr GpuOperation kOfAddRmsNorm[] = {rms_norm, add}, kOfRopeWriteKv[] = {rope, write_kv},
                       kOfAddRmsNormQuantize[] = {rms_norm, add, add_rms_norm, quantize_rows};

struct Ladder {
  const char* name;
  std::span<const KernelInfo> kernels;
  const char* what;
  std::span<const GpuOperation> parts = {};  ///< of a fused operation: what it stands for
};
/// In the order of GpuOperation; a fused operation after its parts.
constexpr Ladder kLadders[] = {
    {"rms_norm", kRmsNorm, "RMSNorm"},
    {"layer_norm", kLayerNorm, "LayerNorm"},
    {"rope", kRope, "rotary position embedding"},
    {"write_kv", kWriteKv, "keys and values into the cache"},
    {"gated", kByValue, "gate(g) * up (SwiGLU, GeGLU)"},
    {"add", kByValue, "sums with the residual stream, and of biases"},
    {"scale", kByValue, "products with one number"},
    {"soft_cap", kByValue, "cap * tanh(x / cap)"},
    {"take_rows", kByValue, "rows of a table of plain numbers (embedding) and of activations"},
    {"add_rows", kByValue, "weighted sums of experts"},
    {"softmax", kSoftmax, "the shares of experts"},
    {"sample", kSample, "the token that follows, from logits"},
    {"quantize_rows", kQuantizeRows, "inputs rounded to 8 bits, for formats that multiply bytes"},
    {"add_rms_norm", kAddRmsNorm, "the residual sum and the RMSNorm after it", kOfAddRmsNorm},
    {"rope_write_kv", kRopeWriteKv, "RoPE, and keys and values into the cache", kOfRopeWriteKv},
    {"add_rms_norm_quantize", kAddRmsNormQuantize, "residual sum, RMSNorm, and the rounding of what it gives", kOfAddRmsNormQuantize},
};

const Ladder& ladder(GpuOperation operation) { return kLadders[static_cast<std::size_t>(operation)]; }

}  // namespace

/// None of them was given another kernel than its best.
bool GpuKernels::at_their_best(std::span<const GpuOperation> parts) const {
  return std::ranges::all_of(parts, [&](GpuOperation part) {
    const std::string& name = choice(part).prefill;
    return name.empty() || name == ladder(part).kernels.back().name;
  });
}

void GpuKernels::visit(Fields& f) {
  static_assert(std::size(kLadders) == kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const Ladder& ladder = kLadders[i];
    // Who names another kernel of a part means it to run.
    if (!at_their_best(ladder.parts)) choices_[i] = {std::string(kSeparate), std::string(kSeparate)};
    f.kernel(ladder.name, choices_[i], ladder.kernels, {ladder.what});
  }
}

void GpuKernels::check() const {
  for (std::size_t i = 0; i < kCount; ++i) {
    const Ladder& ladder = kLadders[i];
    const std::string where = std::string("kernels.") + ladder.name;
    if (choices_[i].prefill != choices_[i].decode)
      throw Error(where, "differs by phase, and a step may hold rows of both", "one name");
    if (choices_[i].prefill == kFused && !at_their_best(ladder.parts))
      throw Error(where, "fused has its own arithmetic, and another kernel than the best was named for one of its parts", "separate",
                  "leave the part's kernel out, or take separate");
  }
}

Version GpuKernels::version(GpuOperation operation) const {
  const std::string& name = choice(operation).prefill;
  return name == "naive" ? Version::naive : name == "block" ? Version::block : Version::fast;
}

bool GpuKernels::fused(GpuOperation operation) const {
  return !ladder(operation).parts.empty() && choice(operation).prefill != kSeparate;
}

}  // namespace patchbay
