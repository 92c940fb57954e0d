/// @file checks.h
/// What checked launches know of memory: who touched each byte last, and what that thread had seen of the others by then.
#pragma once
#include <cstddef>

#include "gpu/device_memory.h"
#include "gpu/observer.h"
#include "gpu/state.h"

namespace patchbay::gpu::emulator {

enum class AccessKind { read, write, atomic, async_write };

void begin_checked_launch();
void begin_checked_block(Block& block);
/// These threads of a block have met: each has now seen all that the others did.
void join_threads(const Block& block, Thread* const* threads, std::size_t count);
/// All that the thread did so far may be handed on by its next atomic operation (__threadfence).
void fence_thread(Thread& thread);
/// Ends the launch with a report when `thread` may not touch these bytes so. @return where they lie.
Space check_access(Worker& w, Thread& thread, const void* address, std::size_t bytes, AccessKind kind, const void* pc);
[[noreturn]] void refuse_misaligned(Worker& w, const void* address, std::size_t bytes, AccessKind kind, const void* pc);
/// An async copy into shared memory has been waited for: from now on it is a write like any other.
void end_async_write(Thread& thread, const void* address, std::size_t bytes, const void* pc);
void forget_shadow(Allocation& allocation);

}  // namespace patchbay::gpu::emulator
