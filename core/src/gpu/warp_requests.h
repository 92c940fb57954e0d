/// @file warp_requests.h
/// From accesses of single lanes to requests of warps. The emulator runs the lanes of a warp one after another; a GPU runs them together.
/// The n-th execution of an instruction by each lane, counted from the last place where all lanes of the warp met, is taken as one.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/requests.h"

namespace patchbay::gpu {

/// How often each lane has been somewhere since its warp met, and what the lanes left there, by that number.
template <class Group>
struct Aligned {
  std::uint32_t times[32] = {};
  std::vector<Group> groups;
  /// The group that this lane's next visit belongs to; null past `most` of them.
  Group* next(unsigned lane, std::size_t most) {
    const std::size_t n = times[lane]++;
    if (n < groups.size()) return &groups[n];
    if (n >= most) return nullptr;
    groups.resize(n + 1);
    return &groups[n];
  }
};

/// One leaving of a basic block by the lanes of a warp.
struct Leaving { std::int32_t to = -1; std::uint8_t lanes = 0; bool divergent = false; };

/// What the lanes of one warp have done since they met.
struct WarpRequests {
  const emulator::Block* block = nullptr;
  unsigned number = 0;                            ///< of the warp in its block
  std::vector<Aligned<Request>> requests;         ///< by site
  std::vector<Aligned<Leaving>> leavings;         ///< by basic block
  std::vector<std::uint32_t> used_sites, used_blocks;  ///< those with groups
  std::int32_t in_block[32];                      ///< the basic block that each lane is in; -1: none yet
};

}  // namespace patchbay::gpu
