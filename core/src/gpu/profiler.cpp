#include "gpu/profiler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "gpu/open_launch.h"
#include "patchbay/error.h"

namespace patchbay::gpu {

using emulator::AsyncCopy;
using emulator::Block;
using emulator::Launch;
using emulator::Space;
using emulator::Thread;

namespace {

/// Groups that a warp may have open at one instruction: 85 MB of requests.
constexpr std::size_t kMostOpen = 1 << 18;

bool writes(Instruction what) { return what == Instruction::global_store || what == Instruction::global_atomic; }
bool reads(Instruction what) { return what != Instruction::global_store; }

}  // namespace

class Profiler::Watch final : public emulator::Observer {
 public:
  std::vector<KernelCounters> launches;

  void launch_begins(const Launch& launch) override {
    open_ = std::make_unique<OpenLaunch>();
    open_->counters.function = launch.call->function;
    open_->counters.grid = launch.grid, open_->counters.block = launch.block;
  }
  void launch_ends(const Launch&, bool failed) override {
    if (!failed) launches.push_back(finished(*open_));
    open_.reset();
  }
  void block_begins(const Block& block) override {
    const auto slot = static_cast<std::size_t>(block.slot);
    if (open_->warps.size() <= slot) open_->warps.resize(slot + 1);
    auto& warps = open_->warps[slot];
    warps.resize(block.warps.size());
    for (std::size_t i = 0; i < warps.size(); ++i) {
      warps[i].block = &block, warps[i].number = static_cast<unsigned>(i);
      std::ranges::fill(warps[i].in_block, -1);
    }
  }

  void access(const Thread& thread, Space space, Instruction what, const void* address, std::size_t bytes, const void* pc) override {
    if (space == Space::local || space == Space::arguments) return;
    if (space == Space::constant) return add(thread, what, false, pc, address, 0);
    add(thread, what, space == Space::shared, pc, address, bytes);
  }
  void async_copy(const Thread& thread, const AsyncCopy& copy) override {
    if (copy.from_bytes) add(thread, Instruction::async_copy, false, copy.pc, copy.from, static_cast<std::size_t>(copy.from_bytes));
    add(thread, Instruction::async_copy, true, copy.pc, copy.to, static_cast<std::size_t>(copy.bytes));
  }

  void basic_block(const Thread& thread, const void* pc) override {
    const std::uint32_t here = open_->block_numbers.of(reinterpret_cast<std::uint64_t>(pc));
    if (here == open_->blocks.size()) open_->blocks.push_back({pc, {-1, -1}, {}});
    WarpRequests& warp = warp_of(thread);
    const std::int32_t left = std::exchange(warp.in_block[thread.lane()], static_cast<std::int32_t>(here));
    if (left < 0) return;
    auto& leavings = at(warp.leavings, warp.used_blocks, static_cast<std::uint32_t>(left));
    Leaving* leaving = leavings.next(thread.lane(), kMostOpen);
    if (!leaving) return;
    if (leaving->to < 0) leaving->to = static_cast<std::int32_t>(here);
    leaving->divergent |= leaving->to != static_cast<std::int32_t>(here);
    ++leaving->lanes;
    CodeBlock& block = open_->blocks[static_cast<std::size_t>(left)];
    if (block.to[0] < 0) block.to[0] = static_cast<std::int32_t>(here);
    else if (block.to[0] != static_cast<std::int32_t>(here)) block.to[1] = static_cast<std::int32_t>(here);
  }

  void operation(Instruction what, const char* name, std::int64_t flops) override {
    if (what == Instruction::ldmatrix) return;  // counted by its accesses
    ++open_->counters.instructions[static_cast<std::size_t>(what)];
    if (flops) open_->counters.tensor_flops[name] += flops;
  }

  void threads_meet(std::span<Thread* const> threads) override {
    std::uint32_t met[32] = {};
    for (const Thread* thread : threads) met[thread->rank / 32] |= 1u << thread->lane();
    auto& warps = open_->warps[static_cast<std::size_t>(threads[0]->block->slot)];
    for (std::size_t i = 0; i < warps.size(); ++i)
      if (met[i] && (met[i] | threads[0]->block->warps[i].exited) == ~0u) close(warps[i]);
  }
  void thread_ends(const Thread& thread) override {
    open_->counters.shared_bytes = std::max(open_->counters.shared_bytes, thread.block->shared_bytes);
    if ((thread.warp->exited | 1u << thread.lane()) == ~0u) close(warp_of(thread));
  }

 private:
  WarpRequests& warp_of(const Thread& thread) { return open_->warps[static_cast<std::size_t>(thread.block->slot)][thread.rank / 32]; }

  template <class Group>
  Aligned<Group>& at(std::vector<Aligned<Group>>& all, std::vector<std::uint32_t>& used, std::uint32_t number) {
    if (all.size() <= number) all.resize(number + 1);
    if (all[number].groups.empty()) used.push_back(number);
    return all[number];
  }

  void add(const Thread& thread, Instruction what, bool shared, const void* pc, const void* address, std::size_t bytes) {
    // The code of ldmatrix is one function: the line that calls it tells its places apart.
    const std::uint64_t line = what == Instruction::ldmatrix ? static_cast<std::uint64_t>(thread.site.line) : 0;
    const std::uint32_t number = open_->site_numbers.of(reinterpret_cast<std::uint64_t>(pc) << 1 ^ shared ^ line << 44);
    if (number == open_->sites.size()) {
      open_->sites.push_back({pc, line ? thread.site : emulator::CallSite{}, {}, 0});
      open_->sites.back().counters.what = what, open_->sites.back().counters.shared = shared;
    }
    WarpRequests& warp = warp_of(thread);
    auto& requests = at(warp.requests, warp.used_sites, number);
    if (requests.groups.capacity() == 0 && !open_->spare.empty()) {
      requests.groups.swap(open_->spare.back());
      open_->spare.pop_back();
    }
    if (Request* request = requests.next(thread.lane(), kMostOpen)) request->add(thread.lane(), reinterpret_cast<std::uint64_t>(address), bytes);
    else ++open_->counters.dropped;
  }

  /// All lanes have met: what they did is complete.
  void close(WarpRequests& warp) {
    for (const std::uint32_t number : warp.used_sites) {
      auto& requests = warp.requests[number];
      for (const Request& request : requests.groups) count(open_->sites[number], request, warp);
      requests.groups.clear();
      open_->spare.emplace_back().swap(requests.groups);
      std::ranges::fill(requests.times, 0);
    }
    for (const std::uint32_t number : warp.used_blocks) {
      auto& leavings = warp.leavings[number];
      BranchCounters& counters = open_->blocks[number].counters;
      for (const Leaving& leaving : leavings.groups) {
        ++counters.executed;
        counters.divergent += leaving.divergent;
        ++open_->counters.basic_blocks;
        open_->counters.basic_block_lanes += leaving.lanes;
      }
      leavings.groups.clear();
      std::ranges::fill(leavings.times, 0);
    }
    warp.used_sites.clear();
    warp.used_blocks.clear();
  }

  void count(Site& at_site, const Request& request, const WarpRequests& warp) {
    SiteCounters& site = at_site.counters;
    // A cp.async has two sides and is one instruction; its shared side is always there.
    if (site.what != Instruction::async_copy || site.shared) ++open_->counters.instructions[static_cast<std::size_t>(site.what)];
    ++site.requests;
    site.lanes += static_cast<std::uint64_t>(std::popcount(request.lanes));
    for (unsigned lane = 0; lane < 32; ++lane)
      if (request.has(lane)) site.bytes += request.bytes[lane];
    if (site.what == Instruction::constant_load) return;
    site.unique_bytes += unique_bytes(request);
    std::uint64_t cost = 0;
    if (site.shared) {
      const Wavefronts wavefronts = wavefronts_of(request, site.what == Instruction::shared_atomic);
      site.wavefronts += static_cast<std::uint64_t>(wavefronts.needed);
      site.least_wavefronts += static_cast<std::uint64_t>(wavefronts.least);
      cost = static_cast<std::uint64_t>(wavefronts.needed);
    } else {
      sectors_of(request, sectors_);
      site.sectors += sectors_.size();
      for (const std::uint64_t sector : sectors_) {
        if (reads(site.what)) open_->read.add(sector);
        if (writes(site.what)) open_->written.add(sector);
      }
      cost = sectors_.size();
    }
    if (cost > at_site.worst) at_site.worst = cost, site.worst = pattern_of(request, warp, site.shared);
  }

  std::unique_ptr<OpenLaunch> open_;
  std::vector<std::uint64_t> sectors_;
};

Profiler::Profiler() : watch_(std::make_unique<Watch>()) {
  if (emulator::observer) throw Error("gpu::Profiler", "another one counts already");
  device_synchronize();  // work given earlier is not counted
  emulator::observer = watch_.get();
}
Profiler::~Profiler() { emulator::observer = nullptr; }
const std::vector<KernelCounters>& Profiler::launches() const {
  device_synchronize();
  return watch_->launches;
}
void Profiler::clear() { watch_->launches.clear(); }

}  // namespace patchbay::gpu
