/// @file environment.h
/// Where and by which build a result came about, and how much memory it took.
#pragma once
#include <cstdint>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

struct Environment {
  std::string host, os, cpu;
  int cores = 0;
  std::string build_id, commit, version;
  std::string sources;  ///< digest of the code of core and plugins, as it was built
};
PATCHBAY_API Environment environment();
/// "2026-01-31T12:00:00Z"
PATCHBAY_API std::string utc_now();

/// Gives freed memory back and forgets the peak so far. False where the system does not allow that: the peak is then the process's.
PATCHBAY_API bool reset_peak_memory();
/// The largest resident set since the last reset.
PATCHBAY_API std::int64_t peak_memory_bytes();

}  // namespace patchbay
