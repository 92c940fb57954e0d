#pragma once

namespace patchbay::gpu::emulator {

/// True for constants and variables of the program and its libraries, a kernel's __constant__ tables among them.
bool is_module_data(const void* address);
/// True for threadIdx and its like.
bool is_thread_index(const void* address);

}  // namespace patchbay::gpu::emulator
