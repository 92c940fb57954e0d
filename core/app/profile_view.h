/// @file profile_view.h
/// What a profile is looked at with: a GPU's limits, nvcc's figures, ncu's; and what of a kernel follows from them.
#pragma once
#include <optional>
#include <string>

#include "gpu/gpu_model.h"
#include "ncu_figures.h"
#include "nvcc_figures.h"
#include "profile_case.h"

namespace patchbay::app {

struct ProfileView {
  const gpu::GpuModel& gpu;
  int registers = 0;      ///< given by the user; 0: not
  bool details = true;    ///< each kernel's lines and instructions too
  NvccReport nvcc = {};
  NcuFigures ncu = {};
};

struct Registers { int count = 0; std::string source; };
/// Of a thread, and who says so: the user, nvcc or ncu; none where nobody does.
std::optional<Registers> registers_of(const ProfileView& view, const gpu::KernelCounters& kernel);
/// The operations that a kernel is held to: those of its mma; where none of the case's kernels has mma, its share of what the case states, by the
/// bytes that each asks for.
double flops_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<gpu::KernelCounters>& kernels);

/// All that a view makes of one kernel.
struct KernelView {
  std::optional<Registers> registers;
  gpu::Occupancy occupancy;
  double flops = 0;
  gpu::TimeBounds bounds;
  std::vector<BesideNcu> beside;   ///< empty where ncu did not measure it
};
KernelView view_of(const gpu::KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<gpu::KernelCounters>& kernels, const ProfileView& view);

}  // namespace patchbay::app
