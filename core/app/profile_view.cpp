#include "profile_view.h"

#include <fmt/format.h>

namespace patchbay::app {

std::optional<Registers> registers_of(const ProfileView& view, const gpu::KernelCounters& kernel) {
  if (view.registers > 0) return Registers{view.registers, "given"};
  if (const auto figures = view.nvcc.find(kernel.kernel, view.gpu.architecture)) return Registers{figures->registers, fmt::format("nvcc, sm_{}", figures->architecture)};
  if (const NcuKernel* measured = view.ncu.find(kernel))
    if (const auto found = measured->metrics.find("launch__registers_per_thread"); found != measured->metrics.end())
      return Registers{static_cast<int>(found->second), "ncu"};
  return std::nullopt;
}

double flops_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, std::size_t kernels) {
  double tensor = 0;
  for (const auto& [mma, flops] : kernel.tensor_flops) tensor += static_cast<double>(flops);
  if (tensor > 0) return tensor;
  return kernels == 1 ? profiled.flops : 0;
}

KernelView view_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, std::size_t kernels, const ProfileView& view) {
  KernelView result;
  result.registers = registers_of(view, kernel);
  result.occupancy = occupancy(view.gpu, kernel, result.registers ? std::optional(result.registers->count) : std::nullopt);
  result.flops = flops_of(kernel, profiled, kernels);
  result.bounds = time_bounds(view.gpu, kernel, result.flops);
  if (const NcuKernel* measured = view.ncu.find(kernel)) result.beside = beside_ncu(kernel, *measured, result.occupancy.share, result.bounds.longest());
  return result;
}

}  // namespace patchbay::app
