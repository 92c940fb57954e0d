#include "gpu/gpu_model.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "patchbay/error.h"

namespace patchbay::gpu {
namespace {

// Sources: docs/profiling.md.
constexpr GpuModel kModels[] = {
    {"A100", 80, 108, 1.410, 2039, 19.5, 156, 312, 0, 624, 2048, 32, 164},
    {"H100", 90, 132, 1.980, 3350, 66.9, 494.7, 989.4, 1978.9, 1978.9, 2048, 32, 228},
    {"H200", 90, 132, 1.980, 4800, 66.9, 494.7, 989.4, 1978.9, 1978.9, 2048, 32, 228},
    {"RTX 4090", 89, 128, 2.520, 1008, 82.6, 82.6, 165.2, 330.3, 660.6, 1536, 24, 100},
    {"L4", 89, 58, 2.040, 300, 30.3, 60, 121, 242.5, 242.5, 1536, 24, 100},
};
constexpr int kRegisters = 65536, kRegistersOfWarpStep = 256, kSharedStep = 128, kSharedOfSystem = 1024;
constexpr double kL1BytesPerClock = 128;

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text.starts_with("rtx") ? text.substr(3) : text;
}
std::size_t rounded_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

/// Of one kind of mma, as the counters name it (mma.m16n8k32.s8).
Peak peak_of_mma(const GpuModel& gpu, std::string_view mma) {
  if (mma.ends_with(".s8")) return {"int8 tensor cores", gpu.int8_tops};
  if (mma.ends_with(".f8")) return {"fp8 tensor cores", gpu.fp8_tflops};
  if (mma.ends_with(".tf32")) return {"tf32 tensor cores", gpu.tf32_tflops};
  return {"fp16 tensor cores", gpu.half_tflops};
}

}  // namespace

std::span<const GpuModel> gpu_models() { return kModels; }
const GpuModel& gpu_model(std::string_view name) {
  std::string names;
  for (const GpuModel& model : kModels) {
    if (plain(model.name) == plain(name)) return model;
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  throw Error("--gpu", "'" + std::string(name) + "' is no GPU that is known here", names);
}

Occupancy occupancy(const GpuModel& gpu, const KernelCounters& kernel, std::optional<int> registers) {
  const int warps = static_cast<int>((kernel.threads() + 31) / 32), most_warps = gpu.threads / 32;
  struct Limit { int blocks; std::string_view what; };
  std::vector<Limit> limits = {{most_warps / warps, "threads"}, {gpu.blocks, "blocks"}};
  const std::size_t shared = rounded_up(kernel.shared_bytes + kSharedOfSystem, kSharedStep);
  limits.push_back({static_cast<int>(static_cast<std::size_t>(gpu.shared_kib) * 1024 / shared), "shared memory"});
  if (registers) {
    const std::size_t of_warp = rounded_up(static_cast<std::size_t>(*registers) * 32, kRegistersOfWarpStep);
    limits.push_back({of_warp ? static_cast<int>(kRegisters / of_warp) / 4 * 4 / warps : gpu.blocks, "registers"});  // a quarter of the warps each
  }
  const Limit least = *std::ranges::min_element(limits, std::less<>(), &Limit::blocks);
  return {least.blocks, static_cast<double>(least.blocks * warps) / most_warps, least.what};
}

Peak peak_of(const GpuModel& gpu, const KernelCounters& kernel) {
  Peak slowest;
  for (const auto& [mma, count] : kernel.tensor_flops)
    if (const Peak peak = peak_of_mma(gpu, mma); slowest.what.empty() || peak.tflops < slowest.tflops) slowest = peak;
  return slowest.what.empty() ? Peak{"fp32", gpu.fp32_tflops} : slowest;
}

double TimeBounds::longest() const { return std::max({memory, cache, shared, tensor, fp32}); }
std::string_view TimeBounds::limit() const {
  const double most = longest();
  return most == memory ? "memory" : most == cache ? "L1" : most == shared ? "shared" : most == tensor ? "tensor cores" : "fp32";
}

TimeBounds time_bounds(const GpuModel& gpu, const KernelCounters& kernel, double flops) {
  // A grid of fewer blocks than multiprocessors leaves some idle.
  const double busy = static_cast<double>(std::min<std::uint64_t>(kernel.blocks(), static_cast<std::uint64_t>(gpu.multiprocessors)));
  const double clocks = busy * gpu.clock_ghz * 1e9, part = busy / gpu.multiprocessors;
  TimeBounds bounds;
  bounds.memory = static_cast<double>(kernel.read_bytes + kernel.written_bytes) / (gpu.memory_gb_per_s * 1e9);
  bounds.cache = static_cast<double>(kernel.global_traffic().sectors * kSectorBytes) / (kL1BytesPerClock * clocks);
  bounds.shared = static_cast<double>(kernel.shared_traffic().wavefronts) / clocks;
  for (const auto& [mma, count] : kernel.tensor_flops)
    if (const double peak = peak_of_mma(gpu, mma).tflops; peak > 0) bounds.tensor += static_cast<double>(count) / (peak * 1e12 * part);
  if (kernel.tensor_flops.empty()) bounds.fp32 = flops / (gpu.fp32_tflops * 1e12 * part);
  return bounds;
}

}  // namespace patchbay::gpu
