// Runs the threads of a block. A CUDA thread that never waits is just a function call: threads run one after another on one fibre,
// and another fibre is taken only when a thread waits in a barrier or collective. A fibre that waits switches straight to the next.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "gpu/checks.h"
#include "gpu/observer.h"
#include "gpu/sanitizer.h"
#include "gpu/source_line.h"
#include "gpu/state.h"
#include "patchbay/error.h"

PATCHBAY_API constinit thread_local uint3 threadIdx{}, blockIdx{};
PATCHBAY_API constinit thread_local dim3 blockDim{1, 1, 1}, gridDim{1, 1, 1};

namespace patchbay::gpu::emulator {

constinit thread_local Worker* worker = nullptr;
constinit thread_local Observer* observer = nullptr;

std::uint64_t next_random(Worker& w) {
  w.random ^= w.random << 13;
  w.random ^= w.random >> 7;
  w.random ^= w.random << 17;
  return w.random;
}

namespace {

/// When a ready thread runs, by the seed's kind of schedule. A uniform draw keeps all warps near each other; fixed random
/// priorities let one warp or thread run far ahead, which is what it takes to see some races.
std::uint64_t random_key(Worker& w, const Thread& thread) {
  const std::uint64_t seed = emulator_options().seed, kind = seed % 3, draw = next_random(w);
  if (kind == 0 || draw % 64 == 0) return draw;  // now and then a priority changes
  const std::uint64_t unit = kind == 1 ? thread.rank / 32 : thread.rank;
  std::uint64_t hash = (seed * 1024 + unit + 1) * 0x9E3779B97F4A7C15ull + thread.block->number * 77;
  hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9ull;
  return (hash & ~0xFFFFull) | draw >> 48;
}

Thread* take_ready(Worker& w) {
  Thread* thread = nullptr;
  if (!w.queue.empty()) {
    thread = w.queue.front();
    w.queue.pop_front();
  } else if (!w.heap.empty()) {
    std::pop_heap(w.heap.begin(), w.heap.end(), std::greater<>());
    thread = w.heap.back().second;
    w.heap.pop_back();
  }
  return thread;
}

void make_current(Worker& w, Thread* thread) {
  w.current = thread;
  threadIdx = thread->index;
  blockIdx = thread->block->index;
}

/// The kernel as the current thread, to its end. @return the thread to run next, null when none is left or an error ends the block.
Thread* run_thread(Worker& w) {
  Thread& thread = *w.current;
  try {
    w.quiet = false;
    w.launch->call->run(w.launch->call->arguments.get());
    w.quiet = true;
    finish_copies(thread, thread.committed_groups + 1);
    thread.done = true;
    if (observer && w.launch->call->checked) observer->thread_ends(thread);
    w.idle_yields = 0;
    end_barriers(w, thread);
    Thread* next = take_ready(w);
    if (!next)
      for (const auto& block : w.blocks)
        if (block->live) report_deadlock(w);
    return next;
  } catch (const Error& error) {
    w.quiet = true;
    w.where = error.where(), w.problem = error.problem(), w.remedy = error.remedy();
  } catch (const std::exception& error) {
    w.quiet = true;
    w.where = place_of(w), w.problem = error.what();
  }
  return nullptr;
}

PATCHBAY_NO_ASAN void fibre_main() {
  enter_fibre();
  for (;;) {
    Worker& w = *worker;
    Thread* ended = w.current;
    Thread* next = run_thread(w);
    Fibre* fibre = ended->fibre;
    ended->fibre = nullptr;
    if (next && !next->fibre) {  // it has not begun: no switch needed
      next->fibre = fibre;
      make_current(w, next);
      continue;
    }
    w.fibres.give_back(fibre);
    if (next) make_current(w, next);
    else w.current = nullptr;
    ++w.switches;
    switch_fibre(*fibre, next ? *next->fibre : w.main, true);
  }
}

void begin_block(const Launch& launch, Block& block, std::size_t number, int slot) {
  const unsigned count = launch.block.x * launch.block.y * launch.block.z;
  block.index = {static_cast<unsigned>(number % launch.grid.x), static_cast<unsigned>(number / launch.grid.x % launch.grid.y),
                 static_cast<unsigned>(number / launch.grid.x / launch.grid.y)};
  block.number = static_cast<unsigned>(number);
  block.slot = slot;
  block.live = count;
  begin_shared_memory(block, launch.shared_bytes);
  if (launch.call->checked) begin_checked_block(block);
  block.threads.resize(count);
  block.warps.assign((count + 31) / 32, Warp{});
  for (auto& barrier : block.barriers) barrier = Barrier{};
  for (unsigned rank = 0; rank < count; ++rank) {
    Thread& thread = block.threads[rank];
    thread = Thread{};
    thread.index = {rank % launch.block.x, rank / launch.block.x % launch.block.y, rank / launch.block.x / launch.block.y};
    thread.rank = rank, thread.block = &block, thread.warp = &block.warps[rank / 32];
    thread.warp->lanes[rank % 32] = &thread;
    thread.warp->members |= 1u << (rank % 32);
  }
  for (auto& warp : block.warps) warp.exited = ~warp.members;  // lanes past the end of the block
  if (observer && launch.call->checked) observer->block_begins(block);
}

/// What still runs after an error is dropped as it stands.
void drop_all(Worker& w, Launch& launch) {
  w.queue.clear();
  w.heap.clear();
  w.fibres.reset();
  const std::lock_guard lock(launch.mutex);
  if (launch.problem.empty()) launch.where = w.where, launch.problem = w.problem, launch.remedy = w.remedy;
  w.problem.clear();
  launch.next = launch.blocks;
}

}  // namespace

void make_ready(Worker& w, Thread* thread) {
  thread->waits_in = nullptr;
  if (emulator_options().order != Order::random) {
    w.queue.push_back(thread);
    return;
  }
  w.heap.emplace_back(random_key(w, *thread), thread);
  std::push_heap(w.heap.begin(), w.heap.end(), std::greater<>());
}

void run_another() {
  Worker& w = *worker;
  Thread *self = w.current, *next = take_ready(w);
  if (!next) report_deadlock(w);
  if (next == self) return;
  if (!next->fibre) next->fibre = w.fibres.take(fibre_main);
  make_current(w, next);
  ++w.switches;
  switch_fibre(*self->fibre, *next->fibre, false);
}

void yield() {
  const Quiet quiet;
  constexpr std::uint64_t kPatience = 2'000'000;
  if (++worker->idle_yields > kPatience)
    fail("threads wait for each other in loops and nothing happens any more",
         "a thread may only wait for threads that can run: see EmulatorOptions::resident_blocks for blocks that wait for blocks");
  make_ready(*worker, worker->current);
  run_another();
}

void abandon_as(Thread& thread, std::function<std::string()> problem, const char* remedy) {
  Worker& w = *worker;
  Fibre* fibre = w.current->fibre;
  w.current = &thread;
  w.report = std::move(problem);
  w.remedy = remedy;
  switch_fibre(*fibre, w.main, true);
  std::abort();  // an abandoned fibre is never gone on with
}

void run_blocks(Worker& w, Launch& launch) {
  w.queue.clear();
  w.heap.clear();
  w.launch = &launch;
  w.checked = launch.call->checked;
  blockDim = launch.block;
  gridDim = launch.grid;
  for (std::size_t first; (first = launch.next.fetch_add(launch.together)) < launch.blocks;) {
    const std::size_t count = std::min(launch.together, launch.blocks - first);
    w.random = (emulator_options().seed + 1) * 0x9E3779B97F4A7C15ull ^ (first + 1) * 0xBF58476D1CE4E5B9ull;
    for (int i = 0; i < 8; ++i) next_random(w);
    while (w.blocks.size() < count) w.blocks.push_back(std::make_unique<Block>());
    for (auto& block : w.blocks) block->live = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Block& block = *w.blocks[i];
      begin_block(launch, block, first + i, static_cast<int>(i));
      const unsigned threads = block.live;
      for (unsigned rank = 0; rank < threads; ++rank)
        make_ready(w, &block.threads[emulator_options().order == Order::reverse ? threads - 1 - rank : rank]);
    }
    Thread* thread = take_ready(w);
    thread->fibre = w.fibres.take(fibre_main);
    make_current(w, thread);
    ++w.switches;
    switch_fibre(w.main, *thread->fibre, false);
    if (w.report) {
      w.where = place_of(w), w.problem = w.report();
      w.report = nullptr;
    }
    w.current = nullptr;
    w.quiet = false;
    w.site = nullptr;
    if (!w.problem.empty()) drop_all(w, launch);
  }
  w.launch = nullptr;
  w.checked = false;
}

Worker::~Worker() {
  for (const auto& block : blocks)
    if (block->arena) release_shared_memory(*block);
}

}  // namespace patchbay::gpu::emulator
