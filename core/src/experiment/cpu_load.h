/// @file cpu_load.h
/// How much of the machine others used while something was measured, and how much memory is left.
#pragma once
#include <cstdint>
#include <string>

#include "patchbay/tensor.h"

namespace patchbay {

/// Others with more than this share of the cores disturb a timing.
inline constexpr double kBusyFrom = 0.05;

/// CPU seconds since some start, over the cores that this process may run on.
struct CpuTimes {
  double all_s = 0;    ///< of all processes: neither idle nor waiting for a disk; what a hypervisor took (steal) included
  double own_s = 0;    ///< of all threads of this process
  double clock_s = 0;  ///< wall clock
  int cores = 0;       ///< 0: the system does not say
};
PATCHBAY_API CpuTimes cpu_times();
/// Share of those cores' time that went to others between two moments, 0 to 1; NaN where the system does not say.
PATCHBAY_API double busy_share(const CpuTimes& before, const CpuTimes& after);

/// Adds the `cpuN` lines of /proc/stat (proc(5)) of the cores that `counts`.
PATCHBAY_API void read_proc_stat(const std::string& proc_stat, double ticks_per_s, FunctionRef<bool(int core)> counts, CpuTimes& times);

/// Bytes that can still be taken without swapping, the control group's limit looked at too; 0 where the system does not say.
PATCHBAY_API std::int64_t available_memory_bytes();

}  // namespace patchbay
