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

double flops_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<gpu::KernelCounters>& kernels) {
  const auto tensor_flops = [](const gpu::KernelCounters& one) {
    double sum = 0;
    for (const auto& [mma, flops] : one.tensor_flops) sum += static_cast<double>(flops);
    return sum;
  };
  const auto bytes = [](const gpu::KernelCounters& one) { return static_cast<double>(one.global_traffic().bytes); };
  double tensor = 0, asked_for = 0;
  for (const auto& one : kernels) tensor += tensor_flops(one), asked_for += bytes(one);
  if (tensor > 0) return tensor_flops(kernel);
  return asked_for > 0 ? profiled.flops * bytes(kernel) / asked_for : 0;
}

KernelView view_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<gpu::KernelCounters>& kernels, const ProfileView& view) {
  KernelView result;
  result.registers = registers_of(view, kernel);
  result.occupancy = occupancy(view.gpu, kernel, result.registers ? std::optional(result.registers->count) : std::nullopt);
  result.flops = flops_of(kernel, profiled, kernels);
  result.bounds = time_bounds(view.gpu, kernel, result.flops);
  if (const NcuKernel* measured = view.ncu.find(kernel)) result.beside = beside_ncu(kernel, *measured, result.occupancy.share, result.bounds.longest());
  return result;
}

}  // namespace patchbay::app
