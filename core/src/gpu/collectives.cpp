// Barriers of a block and operations of a warp. Who arrives waits; the last to arrive does the work for all and wakes them.
#include <bit>
#include <cstring>

#include "gpu/checks.h"
#include "gpu/observer.h"
#include "gpu/state.h"

namespace patchbay::gpu::emulator {
namespace {

/// Every warp with threads in the barrier has executed it.
void observe_barrier(const Barrier& barrier) {
  std::uint32_t warps = 0;
  for (const Thread* thread : barrier.waiting) warps |= 1u << thread->rank / 32;
  for (int i = 0; i < std::popcount(warps); ++i) observer->operation(Instruction::barrier, barrier.operation, 0);
  observer->threads_meet(barrier.waiting);
}

Instruction instruction(WarpOperation kind) {
  switch (kind) {
    case WarpOperation::sync: return Instruction::syncwarp;
    case WarpOperation::shuffle: return Instruction::shuffle;
    case WarpOperation::vote: return Instruction::vote;
    case WarpOperation::reduce: return Instruction::reduce;
    case WarpOperation::match: return Instruction::match;
    case WarpOperation::ldmatrix: return Instruction::ldmatrix;
    case WarpOperation::mma: break;
  }
  return Instruction::mma;
}

void wake(Worker& w, Barrier& barrier) {
  w.idle_yields = 0;
  if (w.launch->call->checked) {
    join_threads(*barrier.waiting[0]->block, barrier.waiting.data(), barrier.waiting.size());
    if (observer) observe_barrier(barrier);
  }
  for (Thread* thread : barrier.waiting) {
    thread->sum = barrier.sum;
    make_ready(w, thread);
  }
  barrier.waiting.clear();
  barrier.sum = 0;
}

void wake_if_complete(Worker& w, const Block& block, Barrier& barrier) {
  const unsigned expected = barrier.expected ? barrier.expected : block.live;
  if (!barrier.waiting.empty() && barrier.waiting.size() >= expected) wake(w, barrier);
}

/// Runs every operation of the warp whose lanes have all arrived or ended.
void complete_gatherings(Worker& w, Warp& warp) {
  for (std::size_t i = 0; i < warp.open.size();) {
    const Gathering gathering = warp.open[i];
    if (((gathering.arrived | warp.exited) & gathering.mask) != gathering.mask) {
      ++i;
      continue;
    }
    warp.open.erase(warp.open.begin() + static_cast<std::ptrdiff_t>(i));
    w.site = &gathering.site;
    if (gathering.compute) gathering.compute(warp.arguments, gathering.arrived);
    w.site = nullptr;
    Thread* lanes[32];
    std::size_t count = 0;
    for (int lane = 0; lane < 32; ++lane)
      if (gathering.arrived >> lane & 1) lanes[count++] = warp.lanes[lane];
    if (w.launch->call->checked && count) {
      if (gathering.what.orders_memory) join_threads(*lanes[0]->block, lanes, count);
      if (observer) {
        observer->operation(instruction(gathering.what.kind), gathering.what.name, gathering.what.flops);
        observer->threads_meet({lanes, count});
      }
    }
    for (std::size_t k = 0; k < count; ++k) make_ready(w, lanes[k]);
  }
}

bool same(CallSite a, CallSite b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

}  // namespace

int barrier_sum(int value, const char* operation, CallSite site) {
  const Quiet quiet;
  Worker& w = *worker;
  Thread& thread = *w.current;
  Barrier& barrier = thread.block->barriers[0];
  if (barrier.waiting.empty()) {
    barrier.site = site;
    barrier.operation = operation;
  } else if (!same(site, barrier.site)) {
    fail("barrier divergence: this thread is in " + std::string(operation) + " at " + text_of(site) + ", " +
             std::to_string(barrier.waiting.size()) + " others wait in " + barrier.operation + " at " + text_of(barrier.site),
         "every thread of a block must reach the same barrier");
  }
  thread.waits_in = operation;
  thread.site = site;
  barrier.sum += value;
  barrier.waiting.push_back(&thread);
  wake_if_complete(w, *thread.block, barrier);
  run_another();
  return thread.sum;
}
void barrier(CallSite site) { barrier_sum(0, "__syncthreads", site); }

void named_barrier(int id, int threads, CallSite site) {
  const Quiet quiet;
  if (id < 1 || id >= kBarriers || threads <= 0 || threads % 32 != 0)
    fail("bar.sync " + std::to_string(id) + ", " + std::to_string(threads) + ": barriers are 1 to 15, threads a multiple of 32");
  Worker& w = *worker;
  Thread& thread = *w.current;
  Barrier& barrier = thread.block->barriers[id];
  barrier.expected = static_cast<unsigned>(threads);
  thread.waits_in = "bar.sync";
  thread.site = site;
  barrier.waiting.push_back(&thread);
  wake_if_complete(w, *thread.block, barrier);
  run_another();
}

void warp_collective(unsigned mask, const Collective& what, void* arguments, WarpFunction compute, CallSite site) {
  run_collective(mask, what, arguments, compute, site, __builtin_return_address(0));
}

void run_collective(unsigned mask, const Collective& what, void* arguments, WarpFunction compute, CallSite site, const void* pc) {
  const Quiet quiet;
  Worker& w = *worker;
  Thread& thread = *w.current;
  Warp& warp = *thread.warp;
  const unsigned bit = 1u << thread.lane();
  if (!(mask & bit)) fail(std::string(what.name) + " at " + text_of(site) + ": the calling lane is not in its own mask");
  thread.waits_in = what.name;
  thread.site = site;
  thread.pc = pc;
  warp.arguments[thread.lane()] = arguments;
  Gathering* gathering = nullptr;
  for (auto& open : warp.open)
    if (open.mask == mask) gathering = &open;
  if (!gathering) gathering = &warp.open.emplace_back(Gathering{mask, 0, what, compute, site});
  if (gathering->compute != compute)
    fail("warp divergence: this lane is in " + std::string(what.name) + " at " + text_of(site) + ", others of the same mask wait in " +
         gathering->what.name + " at " + text_of(gathering->site));
  gathering->arrived |= bit;
  complete_gatherings(w, warp);
  run_another();
}

void end_barriers(Worker& w, Thread& thread) {
  thread.warp->exited |= 1u << thread.lane();
  --thread.block->live;
  complete_gatherings(w, *thread.warp);  // others may have waited for this lane
  wake_if_complete(w, *thread.block, thread.block->barriers[0]);
}

int lane_id() { return static_cast<int>(worker->current->lane()); }

}  // namespace patchbay::gpu::emulator
