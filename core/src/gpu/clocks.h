/// @file clocks.h
/// What each thread of a checked launch has seen of the others: vector clocks. A thread's clock counts the times that it met others; what it did
/// before a meeting is known to whom it met. Between blocks, knowledge travels by fence and atomic (__threadfence, then atomicAdd on one address).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpu/state.h"

namespace patchbay::gpu::emulator {

/// What is known of other blocks: by epoch, the clocks of the block's threads.
using Foreign = std::map<std::uint32_t, std::vector<std::uint32_t>>;

class BlockClocks {
 public:
  void begin(unsigned threads, std::uint32_t epoch);
  std::uint32_t epoch() const { return epoch_; }
  /// The thread's own clock, which is never 0.
  std::uint32_t now(unsigned rank) const { return own_[rank]; }
  /// True when `rank` knows of all that thread `other` of the block `epoch` had done when its clock was `clock`.
  bool knows(unsigned rank, std::uint32_t epoch, unsigned other, std::uint32_t clock) const {
    if (epoch != epoch_) return knows_foreign(rank, epoch, other, clock);
    if (rank == other) return true;
    const Knowledge* seen = seen_[rank].get();
    return seen && seen->clocks[other] >= clock;
  }
  void join(Thread* const* threads, std::size_t count);
  /// What the thread has done so far may be handed on by its next atomic.
  void fence(unsigned rank);
  /// An atomic operation on `address`: takes over what others handed on there, and hands on what was fenced.
  void atomic(unsigned rank, const void* address);
  /// Forgets what lies at addresses: a kernel's end orders everything.
  static void begin_launch();

 private:
  /// The clocks of the other threads, and of other blocks. Threads that have met share one until one of them learns more: a barrier of n
  /// threads costs n steps, not n x n.
  struct Knowledge { std::vector<std::uint32_t> clocks; Foreign foreign; };
  bool knows_foreign(unsigned rank, std::uint32_t epoch, unsigned other, std::uint32_t clock) const;
  /// A copy of what the thread knows, which is its alone.
  Knowledge& knowledge_of(unsigned rank);

  unsigned threads_ = 0;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> own_;                    ///< by thread
  std::vector<std::shared_ptr<Knowledge>> seen_;      ///< by thread; null: nothing yet
  std::map<unsigned, Foreign> fenced_;                ///< by thread: what its next atomic hands on
};

}  // namespace patchbay::gpu::emulator
