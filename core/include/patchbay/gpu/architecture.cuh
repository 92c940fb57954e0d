/// @file architecture.cuh
/// The GPU generation that a stream's launches are held to: of the emulator that which was set when the stream was made.
#pragma once
#include "patchbay/gpu/host.h"

namespace patchbay::gpu {
#if defined(__CUDACC__)
inline int architecture_of(Stream) { return device_architecture(); }
#else
inline namespace emulated_device {
PATCHBAY_API int architecture_of(Stream stream);
}
#endif
}  // namespace patchbay::gpu
