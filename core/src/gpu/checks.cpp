// The checks of instrumented kernels: which memory an access hits, and whether it may.
#include "gpu/checks.h"

#include <sys/mman.h>

#include <algorithm>

#include "gpu/clocks.h"
#include "gpu/module_data.h"
#include "gpu/shadow.h"
#include "gpu/source_line.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

ShadowCell* make_shadow(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes * sizeof(ShadowCell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("emulator", "no memory for the shadow of " + std::to_string(bytes) + " bytes");
  return static_cast<ShadowCell*>(memory);
}
void release_shadow(ShadowCell* cells, std::size_t bytes) {
  if (cells) munmap(cells, bytes * sizeof(ShadowCell));
}

namespace {

constexpr std::uint32_t kClockMask = 0xFFFFF;

/// What is known of the blocks that run now, by their slots.
struct Slot { BlockClocks clocks; ShadowCell* shadow = nullptr; };
std::vector<Slot> slots;
std::uint32_t next_epoch = 1, launch_epoch = 1;
Allocation* last_found = nullptr;

/// One access on its way through the checks.
struct Access {
  Worker& w;
  Thread& thread;
  const char* address;
  std::size_t bytes;
  AccessKind kind;
  const void* pc;
  Space space = Space::global;
  std::string_view object = {};  ///< what it hits, for reports

  bool writes() const { return kind != AccessKind::read; }
  Slot& slot() const { return slots[static_cast<std::size_t>(thread.block->slot)]; }
  std::string verb() const {
    return kind == AccessKind::read ? "read" : kind == AccessKind::write ? "write" : kind == AccessKind::atomic ? "atomic" : "async copy";
  }
  std::string memory() const {
    return std::string(space == Space::shared ? "shared" : "global") + " memory" + (object.empty() ? "" : " '" + std::string(object) + "'");
  }
};

std::string line_of(const Worker& w, const Stamp& stamp) {
  return source_line(static_cast<const char*>(w.launch->call->function) + stamp.code);
}
std::string text_of_thread(const Launch& launch, unsigned rank) {
  const unsigned x = rank % launch.block.x, y = rank / launch.block.x % launch.block.y, z = rank / launch.block.x / launch.block.y;
  return "thread (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

/// `problem()` says what is wrong; the line is added.
template <class Problem>
[[noreturn]] void refuse(const Access& a, Problem problem, const char* remedy = "") {
  abandon_as(a.thread, [pc = a.pc, problem] { return problem() + ", at " + source_line(pc); }, remedy);
}

[[noreturn]] void report_race(const Access& a, const Stamp& stamp, const char* other_verb) {
  const bool same_block = stamp.epoch == a.slot().clocks.epoch();
  const auto problem = [a, other = stamp, other_verb, same_block] {
    const std::string text = "race on " + a.memory() + ": " + a.verb() + " at " + source_line(a.pc) + ", and " + (other.atomic ? "atomic" : other_verb) +
                             " at " + line_of(a.w, other) + " by " + text_of_thread(*a.w.launch, other.rank);
    return text + (same_block ? ", with no barrier between" : " of block " + std::to_string(other.epoch - launch_epoch));
  };
  abandon_as(a.thread, problem,
             same_block ? "put __syncthreads() between them (__syncwarp() within a warp)"
                        : "blocks of a launch run in any order: use atomics, or __threadfence() and an atomic to hand over");
}

/// The cells of the bytes: races, bytes that nobody wrote, copies that nobody waited for.
void check_cells(const Access& a, ShadowCell* cells) {
  const BlockClocks& clocks = a.slot().clocks;
  const bool shared = a.space == Space::shared, atomic = a.kind == AccessKind::atomic;
  const bool foreign_counts = !shared && emulator_options().races_between_blocks;
  Stamp now;
  now.epoch = clocks.epoch();
  now.code = static_cast<std::int32_t>(static_cast<const char*>(a.pc) - static_cast<const char*>(a.w.launch->call->function));
  now.clock = clocks.now(a.thread.rank) & kClockMask, now.rank = a.thread.rank & 0x3FF;
  now.atomic = atomic, now.pending = a.kind == AccessKind::async_write;
  const auto clashes = [&](const Stamp& other) {
    if (other.epoch < launch_epoch || (atomic && other.atomic) || (other.epoch == now.epoch && other.rank == now.rank)) return false;
    if (other.epoch != now.epoch && !foreign_counts) return false;
    return !clocks.knows(a.thread.rank, other.epoch, other.rank, other.clock);
  };
  for (std::size_t i = 0; i < a.bytes; ++i) {
    ShadowCell& cell = cells[i];
    if (clashes(cell.write)) report_race(a, cell.write, "write");
    if (a.writes() && clashes(cell.read)) report_race(a, cell.read, "read");
    if (a.writes() && clashes(cell.earlier_read)) report_race(a, cell.earlier_read, "read");
    if (a.kind == AccessKind::read || atomic) {
      if (shared && cell.write.epoch != now.epoch) refuse(a, [a] { return a.verb() + " of " + a.memory() + ", which no thread of the block has written"; },
               "write it first; where another thread writes it, put a barrier between");
      if (cell.write.pending && cell.write.epoch == now.epoch)
        abandon_as(a.thread, [a, copy = cell.write] {
          return a.verb() + " of " + a.memory() + " at " + source_line(a.pc) + " before the async copy into it (" + line_of(a.w, copy) + ") was waited for";
        }, "cp_async_commit(), cp_async_wait<N>() in the thread that copies, then __syncthreads()");
    }
    if (a.writes()) {
      cell = {now, {}, {}};
    } else {
      if (cell.read.epoch && !(cell.read.epoch == now.epoch && cell.read.rank == now.rank)) cell.earlier_read = cell.read;
      cell.read = now;
    }
  }
}

void check_shared(Access& a) {
  const Block& block = *a.thread.block;
  a.space = Space::shared;
  const SharedVariable* before = nullptr;
  for (const auto& variable : block.variables) {
    if (a.address >= variable.address && a.address + a.bytes <= variable.address + variable.bytes) {
      a.object = variable.name;
      check_cells(a, a.slot().shadow + (a.address - block.arena));
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

void check_global(Access& a, Allocation& allocation) {
  if (allocation.freed) refuse(a, [a, &allocation] { return "use after free: " + a.verb() + " of " + DeviceMemory::describe(allocation); });
  const std::ptrdiff_t offset = a.address - allocation.address;
  if (offset < 0 || static_cast<std::size_t>(offset) + a.bytes > allocation.bytes)
    refuse(a, [a, offset, &allocation] {
      return "out of bounds: " + a.verb() + " of " + std::to_string(a.bytes) + " bytes of global memory at byte " + std::to_string(offset) + " of " +
             DeviceMemory::describe(allocation);
    });
  a.object = allocation.name;
  if (!allocation.shadow) allocation.shadow = make_shadow(allocation.mapped_bytes);
  check_cells(a, allocation.shadow + offset);
}

}  // namespace

void begin_checked_launch() {
  launch_epoch = next_epoch;
  last_found = nullptr;
  BlockClocks::begin_launch();
}

void begin_checked_block(Block& block) {
  const auto number = static_cast<std::size_t>(block.slot);
  if (slots.size() <= number) slots.resize(number + 1);
  Slot& slot = slots[number];
  slot.clocks.begin(block.live, launch_epoch + block.number);
  next_epoch = std::max(next_epoch, slot.clocks.epoch() + 1);
  if (!slot.shadow) slot.shadow = make_shadow(kArenaBytes);
}

void join_threads(const Block& block, Thread* const* threads, std::size_t count) {
  slots[static_cast<std::size_t>(block.slot)].clocks.join(threads, count);
}
void fence_thread(Thread& thread) { slots[static_cast<std::size_t>(thread.block->slot)].clocks.fence(thread.rank); }

Space check_access(Worker& w, Thread& thread, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  Access a{w, thread, static_cast<const char*>(address), bytes, kind, pc};
  if (kind == AccessKind::atomic) a.slot().clocks.atomic(thread.rank, address);
  const Block& block = *thread.block;
  if (a.address >= block.arena && a.address < block.arena + kArenaBytes) return check_shared(a), Space::shared;
  const Fibre& own = *thread.fibre;
  if (static_cast<std::size_t>(a.address - own.base) < own.size) return Space::local;
  if (!last_found || !last_found->contains(address)) last_found = DeviceMemory::instance().find(address);
  if (last_found) return check_global(a, *last_found), Space::global;
  const KernelCall& call = *w.launch->call;
  const char* arguments = static_cast<const char*>(call.arguments.get());
  if ((a.address >= arguments && a.address < arguments + call.argument_bytes) || is_thread_index(address)) return Space::arguments;
  if (is_module_data(address)) return Space::constant;
  refuse(a, [a] { return a.verb() + " of memory that is not the device's: a host pointer was passed to the kernel, or an index is far off"; },
         "allocate it with gpu::device_alloc()");
}

void end_async_write(Thread& thread, const void* address, std::size_t bytes, const void* pc) {
  Access a{*worker, thread, static_cast<const char*>(address), bytes, AccessKind::write, pc, Space::shared};
  const Block& block = *thread.block;
  for (const auto& variable : block.variables)
    if (a.address >= variable.address && a.address < variable.address + variable.bytes) a.object = variable.name;
  check_cells(a, a.slot().shadow + (a.address - block.arena));
}

void refuse_misaligned(Worker& w, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  const Access a{w, *w.current, static_cast<const char*>(address), bytes, kind, pc};
  refuse(a, [a] { return "misaligned " + a.verb() + " of " + std::to_string(a.bytes) + " bytes"; }, "the address must be a multiple of the size");
}

void forget_shadow(Allocation& allocation) {
  release_shadow(allocation.shadow, allocation.mapped_bytes);
  allocation.shadow = nullptr;
  last_found = nullptr;
}

}  // namespace patchbay::gpu::emulator
