/// @file shadow.h
/// Who touched each byte last.
#pragma once
#include <cstddef>
#include <cstdint>

namespace patchbay::gpu::emulator {

/// A thread and its clock, its block by epoch, and where in the code (relative to the kernel: one module). Blocks count on from launch to
/// launch, so that what lies here from earlier is recognised as old and is never cleared.
struct Stamp {
  std::uint32_t epoch = 0;
  std::int32_t code = 0;
  std::uint32_t clock : 20 = 0, rank : 10 = 0, atomic : 1 = 0, pending : 1 = 0;  ///< pending: an async copy that was not waited for
};
struct ShadowCell { Stamp write, read, earlier_read; };

/// Cells for `bytes` bytes, all empty; memory is taken as they are used. @throws Error
ShadowCell* make_shadow(std::size_t bytes);
void release_shadow(ShadowCell* cells, std::size_t bytes);

}  // namespace patchbay::gpu::emulator
