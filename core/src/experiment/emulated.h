/// @file emulated.h
/// Runs whose kernels the emulator executes: what they took says nothing about a GPU, and whoever shows it says so.
#pragma once
#include <string>

#include "patchbay/error.h"

namespace patchbay {

class Session;

/// "simt" or "simt_checked" where the session's kernels are emulated; else empty.
PATCHBAY_API std::string emulated_device(Session& session);
/// Threads that compute: those of the host's pool, or those among which the emulator deals a kernel's blocks.
PATCHBAY_API int working_threads(Session& session);

/// Stands wherever such a speed does.
inline constexpr const char* kEmulatedSpeed =
    "EMULATED: these are speeds of the emulator on this CPU, of no GPU, and no measure of how fast a kernel is. For that: patchbay profile, and a GPU.";

}  // namespace patchbay
