/// @file calibration_kernels.h
/// The loops that `patchbay calibrate` times, at the best vector width of the machine (asked by cpuid). Each does a known amount of
/// work, and returns a value that depends on all of it, so that no compiler leaves any of it out.
#pragma once
#include <cstddef>
#include <cstdint>

#include "patchbay/error.h"

namespace patchbay {

/// Arithmetic in registers alone: independent chains, enough of them to hide the latency of an instruction.
struct PeakLoop {
  const char* name;
  double operations;                        ///< of one round: additions and multiplications, each counted
  double (*run)(std::int64_t rounds);
};
PATCHBAY_API PeakLoop fp32_peak_loop();  ///< fused multiply-add, as the fp32 kernels use it
PATCHBAY_API PeakLoop int8_peak_loop();  ///< unsigned times signed bytes, summed: VNNI, or as the avx2 kernels do it

inline constexpr std::int64_t kReadStep = 512;  ///< bytes; reads are multiples of it
/// Loads every byte and adds them up as integers.
using ReadLoop = std::uint64_t (*)(const std::byte* bytes, std::int64_t count);
PATCHBAY_API ReadLoop read_loop();
/// a = b + s c over n doubles: STREAM's triad (McCalpin 1995).
PATCHBAY_API void triad(double* a, const double* b, const double* c, double s, std::int64_t n);

}  // namespace patchbay
