/// @file ncu_figures.h
/// What NVIDIA Nsight Compute (ncu) measured of kernels on a GPU, to stand beside what the emulator counted. Read from
/// `ncu --csv --page raw`, or from JSON: {"gpu": "H200", "kernels": [{"kernel": "gemm<__half>", "grid": [8, 1, 1], "block": [256, 1, 1],
/// "metrics": {"smsp__inst_executed.sum": 4096, ...}}]}, whose values are in ncu's base units (bytes, nanoseconds, cycles, percent).
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/counters.h"

namespace patchbay::app {

/// Launches of one kernel in one shape: means over them.
struct NcuKernel {
  std::string kernel;               ///< short name, as gpu::short_kernel_name() gives it
  std::array<unsigned, 3> grid{}, block{};
  std::map<std::string, double> metrics;
  int launches = 1;
};

class NcuFigures {
 public:
  NcuFigures() = default;
  /// @throws Error naming file, line and column for what is no such file.
  explicit NcuFigures(const std::string& file);
  const NcuKernel* find(const gpu::KernelCounters& kernel) const;
  bool empty() const { return kernels_.empty(); }

 private:
  void read_csv(const std::string& text);
  void read_json(const std::string& text);
  void add(NcuKernel kernel);
  std::string file_;
  std::vector<NcuKernel> kernels_;
};

/// One figure that both know: what it is, what the emulator says and what ncu does. No value: it does not say.
struct BesideNcu { const char* what; std::string metric; std::optional<double> emulated, ncu; };
std::vector<BesideNcu> beside_ncu(const gpu::KernelCounters& kernel, const NcuKernel& ncu, double occupancy, double at_least_s);

}  // namespace patchbay::app
