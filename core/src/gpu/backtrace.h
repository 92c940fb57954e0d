/// @file backtrace.h
/// Who called: for reports, which name the kernel's author's line beside that of a helper.
#pragma once
#include <array>

namespace patchbay::gpu::emulator {

/// Return addresses, the innermost first; null ends them. Plain data: a report is written when the stack that it speaks of has been left.
using Callers = std::array<const void*, 12>;

/// The frames of the running thread that lie in the library of `kernel`, from the one that returns to `pc` (null: the first there) outwards.
Callers callers_in_kernel(const void* kernel, const void* pc);

}  // namespace patchbay::gpu::emulator
