#pragma once

namespace patchbay::gpu::emulator {

/// Makes SIGSEGV a report: of host code that touches device memory, and of kernels that leave all memory (that ends the launch with an Error,
/// as SIGFPE in a kernel does: a division by zero).
/// Called wherever device memory is made or used, since test frameworks put their own handlers in its place.
void watch_faults();

}  // namespace patchbay::gpu::emulator
