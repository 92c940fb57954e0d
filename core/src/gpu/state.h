/// @file state.h
/// What the emulator knows while a kernel runs. One Worker per OS thread; it runs whole blocks, each CUDA thread of which is a fibre.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/fibre.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/gpu/emulator_runtime.h"

namespace patchbay::gpu::emulator {

struct Block;
struct CheckedBlock;  // checks.cpp
struct Warp;

/// One cp.async on its way.
struct AsyncCopy { void* to; const void* from; int bytes, from_bytes, group; const void* pc; bool done = false; };

struct Thread {
  uint3 index;
  unsigned rank = 0;            ///< of the thread in its block
  Block* block = nullptr;
  Warp* warp = nullptr;
  Fibre* fibre = nullptr;       ///< null: not begun, or done
  bool done = false;
  const char* waits_in = nullptr;  ///< the barrier or collective that it waits in
  CallSite site;                ///< where that stands
  const void* pc = nullptr;     ///< the same as a code address
  int sum = 0;                  ///< result of a barrier that adds
  std::vector<AsyncCopy> copies;
  int committed_groups = 0;
  unsigned lane() const { return rank % 32; }
};
/// A warp operation that waits for lanes.
struct Gathering { unsigned mask = 0, arrived = 0; Collective what; WarpFunction compute = nullptr; CallSite site; };
struct Warp {
  unsigned members = 0, exited = 0;
  Thread* lanes[32] = {};
  void* arguments[32] = {};
  std::vector<Gathering> open;
};
struct Barrier { std::vector<Thread*> waiting; unsigned expected = 0; const char* operation = ""; CallSite site; int sum = 0; };
/// A shared variable of a block.
struct SharedVariable { const void* key; const char* name; char* address; std::size_t bytes; };
constexpr int kBarriers = 16;
struct Block {
  uint3 index;
  unsigned number = 0;          ///< of the block in its grid
  int slot = 0;                 ///< of the block among those that run now
  unsigned live = 0;            ///< threads that have not ended
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barriers[kBarriers];
  char* arena = nullptr;        ///< shared memory, with gaps between the variables
  std::size_t arena_used = 0, shared_bytes = 0, static_bytes = 0;
  std::vector<SharedVariable> variables;
  char* dynamic = nullptr;
  std::shared_ptr<CheckedBlock> checked;  ///< what checked launches know of it
};

/// What a stream keeps of the options that were in force when it was made.
struct StreamOptions { int os_threads = 1, architecture = 90; };

/// One launch, shared by the workers that take its blocks.
struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  int architecture = 90;
  const KernelCall* call = nullptr;
  const EmulatorOptions* options = nullptr;
  std::size_t blocks = 0;
  std::size_t together = 1;     ///< blocks that one worker runs interleaved
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::string where, problem, remedy;  ///< the first error, if any
};

struct Worker {
  Fibre main;
  Thread* current = nullptr;
  Launch* launch = nullptr;
  FibrePool fibres;
  std::deque<Thread*> queue;                               ///< ready threads, forward and reverse order
  std::vector<std::pair<std::uint64_t, Thread*>> heap;     ///< ready threads, random order: smallest key first
  std::vector<std::unique_ptr<Block>> blocks;
  std::uint64_t random = 1, switches = 0;
  std::uint64_t atomics = 0;
  std::uint64_t idle_yields = 0;                           ///< since a thread ended or a barrier opened
  const CallSite* site = nullptr;                          ///< of the collective whose work is done just now
  bool checked = false;                                    ///< the launch is
  bool quiet = false;                                      ///< runtime code runs: its accesses are not the kernel's
  std::string where, problem, remedy;                      ///< of the error that ended a block
  std::function<std::string()> report;                     ///< says `problem`, when a thread was abandoned
  ~Worker();
};

/// Asked for at every access and basic block of a checked kernel: a fixed place in each thread's memory, without a call to find it.
#define PATCHBAY_STATIC_TLS __attribute__((tls_model("initial-exec")))

/// The worker of the calling OS thread, null where none was needed yet.
extern PATCHBAY_STATIC_TLS constinit thread_local Worker* worker;

/// While a kernel's thread is in the emulator, what the emulator touches is not the kernel's access. (Library functions that the linker took from
/// an instrumented object are instrumented for everybody.)
class Quiet {
 public:
  Quiet() { worker->quiet = true; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { worker->quiet = false; }
};

inline constexpr std::size_t kArenaBytes = 512 * 1024;
inline constexpr std::size_t kSharedGap = 64;  ///< bytes between two shared variables that belong to nobody

std::uint64_t next_random(Worker& w);
std::string text_of(CallSite site);
/// "kernel gemm, block (0,1,0), thread (5,0,0)"
std::string place_of(const Worker& w);

// scheduler.cpp
void make_ready(Worker& w, Thread* thread);
/// The current thread waits (or is ready again): another one runs.
void run_another();
void run_blocks(Worker& w, Launch& launch);
/// Ends the launch with an error of `thread` (a collective touches memory for all its lanes) without unwinding: for callbacks, which must not
/// throw.
/// `problem` is called when the thread's stack has been left: nothing that it makes is lost there.
[[noreturn]] void abandon_as(Thread& thread, std::function<std::string()> problem, const char* remedy = "");
// reports.cpp
[[noreturn]] void report_deadlock(Worker& w);
// collectives.cpp
/// warp_collective(), called from the kernel's code at `pc`.
void run_collective(unsigned mask, const Collective& what, void* arguments, WarpFunction compute, CallSite site, const void* pc);
void end_barriers(Worker& w, Thread& thread);
// shared_memory.cpp
void begin_shared_memory(Block& block, std::size_t dynamic_bytes);
void release_shared_memory(Block& block);
// async_copy.cpp
/// Does the copies of `thread` in groups before `group`.
void finish_copies(Thread& thread, int group);
// launch.cpp
/// @throws Error when no GPU would take a launch of this shape.
void require_shape(Dim grid, Dim block, std::size_t shared_bytes, int architecture, const KernelCall& call);
void run_launch(Dim grid, Dim block, std::size_t shared_bytes, const StreamOptions& of_stream, const KernelCall& call);

}  // namespace patchbay::gpu::emulator
