// The checks of instrumented kernels: which memory an access hits, and whether it may.
#include "gpu/checks.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "gpu/backtrace.h"
#include "gpu/clocks.h"
#include "gpu/module_data.h"
#include "gpu/shadow.h"
#include "gpu/source_line.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

struct CheckedBlock {
  BlockClocks clocks;
  Shadow shared{kArenaBytes};
};

namespace {

std::uint32_t next_epoch = 1, launch_epoch = 1;

/// Where allocations were found last, by page.
std::array<Allocation*, 64> recent{};
Allocation* allocation_at(const void* address) {
  Allocation*& found = recent[reinterpret_cast<std::uintptr_t>(address) / 4096 % recent.size()];
  if (!found || !found->contains(address)) found = DeviceMemory::instance().find(address);
  return found;
}

/// One access on its way through the checks. Taken by value, so that the compiler keeps it in registers: reports alone need it whole.
struct Access {
  Worker& w;
  Thread& thread;
  const char* address;
  std::size_t bytes;
  AccessKind kind;
  const void* pc;
  Space space = Space::global;
  const char* object = "";  ///< what it hits, for reports

  bool writes() const { return kind != AccessKind::read; }
  CheckedBlock& block() const { return *thread.block->checked; }
  std::string verb() const {
    return kind == AccessKind::read ? "read" : kind == AccessKind::write ? "write" : kind == AccessKind::atomic ? "atomic" : "async copy";
  }
  std::string memory() const {
    if (space == Space::shared) return "shared memory" + (*object ? " '" + std::string(object) + "'" : "");
    if (*object) return "global memory '" + std::string(object) + "'";
    const Allocation* allocation = DeviceMemory::instance().find(address);
    return allocation ? "byte " + std::to_string(address - allocation->address) + " of " + DeviceMemory::describe(*allocation) : "global memory";
  }
};

std::string line_of(const Worker& w, const Stamp& stamp) {
  return report_line(static_cast<const char*>(w.launch->call->function) + stamp.code());
}
std::string text_of_thread(const Launch& launch, unsigned rank) {
  const unsigned x = rank % launch.block.x, y = rank / launch.block.x % launch.block.y, z = rank / launch.block.x / launch.block.y;
  return "thread (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

/// Of an access that the running thread makes itself. (ldmatrix reads for 32 lanes, and only one of them runs.)
Callers callers_of(const Access& a) {
  return &a.thread == a.w.current ? callers_in_kernel(a.w.launch->call->function, a.pc) : Callers{};
}

/// `problem()` says what is wrong; the line is added.
template <class Problem>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(Access a, Problem problem, const char* remedy = "") {
  abandon_as(a.thread, [pc = a.pc, problem, callers = callers_of(a)] { return problem() + ", at " + report_line(pc, callers); }, remedy);
}

[[noreturn, gnu::cold, gnu::noinline]] void report_race(Access a, Stamp stamp, const char* other_verb) {
  const bool same_block = stamp.epoch() == a.block().clocks.epoch();
  const auto problem = [a, other = stamp, other_verb, same_block, callers = callers_of(a)] {
    const std::string text = "race on " + a.memory() + ": " + a.verb() + " at " + report_line(a.pc, callers) + ", and " + (other.atomic() ? "atomic" : other_verb) +
                             " at " + line_of(a.w, other) + " by " + text_of_thread(*a.w.launch, other.rank());
    return text + (same_block ? ", with no barrier between" : " of block " + std::to_string(other.epoch() - launch_epoch));
  };
  abandon_as(a.thread, problem,
             same_block ? "put __syncthreads() between them (__syncwarp() within a warp)"
                        : "blocks of a launch run in any order: use atomics, or __threadfence() and an atomic to hand over");
}

[[noreturn, gnu::cold, gnu::noinline]] void report_unwritten(Access a) {
  refuse(a, [a] { return a.verb() + " of " + a.memory() + ", which no thread of the block has written"; },
         "write it first; where another thread writes it, put a barrier between");
}
[[noreturn, gnu::cold, gnu::noinline]] void report_pending_copy(Access a, Stamp copy) {
  const auto problem = [a, copy, callers = callers_of(a)] {
    return a.verb() + " of " + a.memory() + " at " + report_line(a.pc, callers) + " before the async copy into it (" + line_of(a.w, copy) + ") was waited for";
  };
  abandon_as(a.thread, problem, "cp_async_commit(), cp_async_wait<N>() in the thread that copies, then __syncthreads()");
}

/// What the cells of the bytes say: races, bytes that nobody wrote, copies that nobody waited for.
class CellCheck {
 public:
  explicit CellCheck(const Access& access)
      : a_(access), clocks_(access.block().clocks), shared_(access.space == Space::shared), atomic_(access.kind == AccessKind::atomic),
        now_(clocks_.epoch(), static_cast<std::int32_t>(static_cast<const char*>(access.pc) - static_cast<const char*>(access.w.launch->call->function)),
             access.thread.rank, clocks_.now(access.thread.rank), atomic_, access.kind == AccessKind::async_write) {}

  [[gnu::always_inline]] void operator()(ShadowCell& cell) const {
    if (!is_new(cell.write) && !is_new(cell.read)) cell = {};  // so that what four bytes hold from earlier kernels keeps them from no common cell
    if (clashes(cell.write)) report_race(a_, cell.write, "write");
    if (a_.writes()) {
      if (clashes(cell.read)) report_race(a_, cell.read, "read");
      if (clashes(cell.earlier_read)) report_race(a_, cell.earlier_read, "read");
    }
    if (a_.kind == AccessKind::read || atomic_) require_written(cell.write);
    if (a_.writes()) {
      cell.write = now_;
      cell.read = cell.earlier_read = {};
    } else {
      if (cell.read.epoch() && !cell.read.same_thread(now_)) cell.earlier_read = cell.read;
      cell.read = now_;
    }
  }

 private:
  static bool is_new(const Stamp& other) { return other.epoch() >= launch_epoch; }
  bool clashes(const Stamp& other) const {
    if (!is_new(other) || other.same_thread(now_) || (atomic_ && other.atomic())) return false;
    if (other.epoch() != now_.epoch() && (shared_ || !a_.w.launch->options->races_between_blocks)) return false;
    return !clocks_.knows(a_.thread.rank, other.epoch(), other.rank(), other.clock());
  }
  void require_written(const Stamp& write) const {
    if (write.epoch() != now_.epoch()) {
      if (shared_) report_unwritten(a_);
    } else if (write.pending()) {
      report_pending_copy(a_, write);
    }
  }

  const Access a_;
  const BlockClocks& clocks_;
  const bool shared_, atomic_;
  const Stamp now_;
};

[[gnu::always_inline]] inline void check_cells(const Access& a, Shadow& shadow, std::size_t offset) {
  const CellCheck check(a);
  if (ShadowCell* cell = shadow.only_cell(offset, a.bytes)) check(*cell);
  else shadow.visit(offset, a.bytes, check);
}

[[gnu::always_inline]] inline void check_shared(Access a) {
  const Block& block = *a.thread.block;
  a.space = Space::shared;
  const SharedVariable* before = nullptr;
  for (const auto& variable : block.variables) {
    if (a.address >= variable.address && a.address + a.bytes <= variable.address + variable.bytes) {
      a.object = variable.name;
      check_cells(a, a.block().shared, static_cast<std::size_t>(a.address - block.arena));
      return;
    }
    if (a.address + a.bytes > variable.address) before = &variable;  // variables lie in the order of their addresses
  }
  if (!before) before = &block.variables.front();
  refuse(a, [a, before] {
    return "out of bounds: " + a.verb() + " of " + std::to_string(a.bytes) + " bytes of shared memory at byte " +
           std::to_string(a.address - before->address) + " of '" + before->name + "', which has " + std::to_string(before->bytes);
  });
}

void check_global(Access a, Allocation& allocation) {
  if (allocation.freed) refuse(a, [a, &allocation] { return "use after free: " + a.verb() + " of " + DeviceMemory::describe(allocation); });
  const std::ptrdiff_t offset = a.address - allocation.address;
  if (offset < 0 || static_cast<std::size_t>(offset) + a.bytes > allocation.bytes)
    refuse(a, [a, offset, &allocation] {
      return "out of bounds: " + a.verb() + " of " + std::to_string(a.bytes) + " bytes of global memory at byte " + std::to_string(offset) + " of " +
             DeviceMemory::describe(allocation);
    });
  a.object = allocation.name.c_str();
  if (!allocation.shadow) allocation.shadow = std::make_unique<Shadow>(allocation.mapped_bytes);
  check_cells(a, *allocation.shadow, static_cast<std::size_t>(offset));
}

/// A __device__ variable is global memory under a name; what is constant may be read.
[[gnu::noinline]] Space check_variable(Access a, ModuleVariable& variable) {
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(a.address) - variable.begin;
  const std::uintptr_t bytes = variable.end - variable.begin;
  if (offset + a.bytes > bytes)
    refuse(a, [a, offset, bytes, &variable] {
      return "out of bounds: " + a.verb() + " of " + std::to_string(a.bytes) + " bytes at byte " + std::to_string(offset) + " of variable '" + variable.name +
             "' of " + std::to_string(bytes) + " bytes";
    });
  if (!variable.writable && a.writes()) refuse(a, [a, &variable] { return a.verb() + " of constant '" + variable.name + "'"; }, "make it a __device__ variable");
  if (!variable.writable) return Space::constant;
  a.object = variable.name.c_str();
  if (!variable.shadow) variable.shadow = std::make_unique<Shadow>(bytes);
  check_cells(a, *variable.shadow, offset);
  return Space::global;
}

}  // namespace

void begin_checked_launch() {
  launch_epoch = next_epoch;
  recent.fill(nullptr);
  BlockClocks::begin_launch();
}

void begin_checked_block(Block& block) {
  if (!block.checked) block.checked = std::make_shared<CheckedBlock>();
  block.checked->clocks.begin(block.live, launch_epoch + block.number);
  next_epoch = std::max(next_epoch, block.checked->clocks.epoch() + 1);
}

void join_threads(const Block& block, Thread* const* threads, std::size_t count) { block.checked->clocks.join(threads, count); }
void fence_thread(Thread& thread) { thread.block->checked->clocks.fence(thread.rank); }

Space check_access(Worker& w, Thread& thread, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  Access a{w, thread, static_cast<const char*>(address), bytes, kind, pc};
  if (kind == AccessKind::atomic) a.block().clocks.atomic(thread.rank, address);
  const Block& block = *thread.block;
  if (a.address >= block.arena && a.address < block.arena + kArenaBytes) return check_shared(a), Space::shared;
  const Fibre& own = *thread.fibre;
  if (static_cast<std::size_t>(a.address - own.base) < own.size) return Space::local;
  if (is_thread_index(address)) return Space::arguments;
  if (Allocation* allocation = allocation_at(address)) return check_global(a, *allocation), Space::global;
  const KernelCall& call = *w.launch->call;
  const char* arguments = static_cast<const char*>(call.arguments.get());
  if (a.address >= arguments && a.address < arguments + call.argument_bytes) return Space::arguments;
  if (ModuleVariable* variable = module_variable_at(call.function, address)) return check_variable(a, *variable);
  refuse(a, [a] {
    return a.verb() + " of memory that is not the device's: a host pointer was passed to the kernel, or an index is far off" +
           DeviceMemory::instance().nearest_text(a.address);
  }, "check the index; what the host has goes to the device by gpu::device_alloc() and gpu::memcpy_async()");
}

void end_async_write(Thread& thread, const void* address, std::size_t bytes, const void* pc) {
  Access a{*worker, thread, static_cast<const char*>(address), bytes, AccessKind::write, pc, Space::shared};
  const Block& block = *thread.block;
  for (const auto& variable : block.variables)
    if (a.address >= variable.address && a.address < variable.address + variable.bytes) a.object = variable.name;
  check_cells(a, a.block().shared, static_cast<std::size_t>(a.address - block.arena));
}

void refuse_misaligned(Worker& w, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  const Access a{w, *w.current, static_cast<const char*>(address), bytes, kind, pc};
  refuse(a, [a] { return "misaligned " + a.verb() + " of " + std::to_string(a.bytes) + " bytes"; }, "the address must be a multiple of the size");
}

void forget_shadow(Allocation& allocation) {
  allocation.shadow = nullptr;
  recent.fill(nullptr);
}

}  // namespace patchbay::gpu::emulator
