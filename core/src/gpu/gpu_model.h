/// @file gpu_model.h
/// What a GPU can do at most, from its maker's documents, and what that means for a kernel whose counters are known. docs/profiling.md
/// has the table with its sources.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpu/counters.h"

namespace patchbay::gpu {

struct GpuModel {
  std::string_view name;
  int architecture;            ///< 80: sm_80
  int multiprocessors;
  double clock_ghz;            ///< the highest boost clock
  double memory_gb_per_s;
  double fp32_tflops;          ///< outside of tensor cores
  double tf32_tflops, half_tflops, fp8_tflops, int8_tops;  ///< dense, on tensor cores, floats summed in fp32; half: fp16 and bf16; 0: it has none
  int threads, blocks, shared_kib;  ///< that fit on one multiprocessor
};
PATCHBAY_API std::span<const GpuModel> gpu_models();
/// @throws Error listing the names there are.
PATCHBAY_API const GpuModel& gpu_model(std::string_view name);

/// How many blocks of a kernel fit on one multiprocessor at once.
struct Occupancy {
  int blocks = 0;                  ///< 0: one block is too large for this GPU
  double share = 0;                ///< of the warps that a multiprocessor can hold
  std::string_view limit;          ///< what allows no more: threads, blocks, shared memory, registers
};
/// registers: of a thread, where known.
PATCHBAY_API Occupancy occupancy(const GpuModel& gpu, const KernelCounters& kernel, std::optional<int> registers);

/// The arithmetic that a kernel is held to: of its mma where it has any (the slowest type, if of several), else fp32.
struct Peak { std::string_view what; double tflops = 0; };
PATCHBAY_API Peak peak_of(const GpuModel& gpu, const KernelCounters& kernel);

/// The shortest time that each part of the GPU needs for what the kernel asks of it, in seconds. The kernel takes at least the longest.
struct TimeBounds {
  double memory = 0;    ///< every sector once from DRAM
  double cache = 0;     ///< every sector of every request from L1
  double shared = 0;    ///< every wavefront
  double tensor = 0;    ///< every mma
  double fp32 = 0;      ///< stated operations outside of tensor cores
  PATCHBAY_API double longest() const;
  PATCHBAY_API std::string_view limit() const;
};
/// flops: operations that the kernel's work takes by definition, where known; counted against fp32 when it has no mma.
PATCHBAY_API TimeBounds time_bounds(const GpuModel& gpu, const KernelCounters& kernel, double flops = 0);

}  // namespace patchbay::gpu
