/// @file observer.h
/// Who watches the threads of checked launches: told of every memory access, basic block, warp operation and barrier, after its checks.
#pragma once
#include <cstddef>
#include <span>

#include "gpu/state.h"

namespace patchbay::gpu::emulator {

/// Where an address lies. local: the thread's own stack; arguments: the kernel's; constant: read-only data of the
/// kernel's library; its variables are global memory.
enum class Space { local, shared, global, arguments, constant };
/// What a warp issues, as far as the emulator sees it. Arithmetic is not seen.
enum class Instruction {
  global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic, async_copy, constant_load, ldmatrix, mma,
  shuffle, vote, reduce, match, syncwarp, barrier
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void launch_begins(const Launch& launch) = 0;
  virtual void launch_ends(const Launch& launch, bool failed) = 0;
  virtual void block_begins(const Block& block) = 0;
  virtual void access(const Thread& thread, Space space, Instruction what, const void* address, std::size_t bytes, const void* pc) = 0;
  /// A cp.async when it is issued: `bytes` are written to shared memory, `from_bytes` read from global memory.
  virtual void async_copy(const Thread& thread, const AsyncCopy& copy) = 0;
  virtual void basic_block(const Thread& thread, const void* pc) = 0;
  /// A warp operation, or a warp's part in a barrier.
  virtual void operation(Instruction what, const char* name, std::int64_t flops) = 0;
  /// These threads of a block stand at one place of the code and go on together.
  virtual void threads_meet(std::span<Thread* const> threads) = 0;
  virtual void thread_ends(const Thread& thread) = 0;
};

/// Null where nobody watches. Checked launches run on the OS thread that launches them: set it there.
extern PATCHBAY_STATIC_TLS constinit thread_local Observer* observer;

}  // namespace patchbay::gpu::emulator
