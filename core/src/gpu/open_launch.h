/// @file open_launch.h
/// What the profiler has counted of the launch that runs, by code address; and what it says of it in the end, by line of the source.
#pragma once
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/counters.h"
#include "gpu/warp_requests.h"

namespace patchbay::gpu {

/// Sectors of global memory, as a bit each.
class SectorSet {
 public:
  void add(std::uint64_t sector) {
    const std::uint64_t page = sector / 64;
    if (page != last_page_ || !last_) last_page_ = page, last_ = &pages_[page];
    *last_ |= 1ull << sector % 64;
  }
  std::uint64_t bytes() const {
    std::uint64_t sectors = 0;
    for (const auto& [page, bits] : pages_) sectors += static_cast<std::uint64_t>(std::popcount(bits));
    return sectors * kSectorBytes;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> pages_;
  std::uint64_t last_page_ = 0, *last_ = nullptr;
};

/// Numbers for code addresses in the order of their first appearance, with a cache in front: asked for at every access.
class Numbers {
 public:
  std::uint32_t of(std::uint64_t key) {
    Entry& entry = cache_[key * 0x9E3779B97F4A7C15ull >> 52];
    if (entry.key != key + 1) entry = {key + 1, numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second};
    return entry.number;
  }

 private:
  struct Entry { std::uint64_t key = 0; std::uint32_t number = 0; };
  std::vector<Entry> cache_ = std::vector<Entry>(4096);
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

struct Site {
  const void* pc = nullptr;
  emulator::CallSite call;       ///< where pc says too little
  SiteCounters counters;
  std::uint64_t worst = 0;       ///< sectors or wavefronts of counters.worst
};
struct CodeBlock {
  const void* pc = nullptr;      ///< after the call at its start
  std::int32_t to[2] = {-1, -1}; ///< the first two blocks that followed
  BranchCounters counters;
};

/// What is known of the launch that runs.
struct OpenLaunch {
  KernelCounters counters;
  Numbers site_numbers, block_numbers;
  std::vector<Site> sites;
  std::vector<CodeBlock> blocks;
  SectorSet read, written;
  std::vector<std::vector<WarpRequests>> warps;  ///< by slot of the block
  std::vector<std::vector<Request>> spare;       ///< memory of closed groups
};

/// The request as offsets in the object that it touches.
AccessPattern pattern_of(const Request& request, const WarpRequests& warp, bool shared);
/// The launch's counters with lines of the source in place of addresses.
KernelCounters finished(OpenLaunch& launch);

}  // namespace patchbay::gpu
