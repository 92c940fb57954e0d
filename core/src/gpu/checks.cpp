// The checks of instrumented kernels. Every byte of shared memory and of device memory has a shadow cell: its last write and last two reads.
// Every thread has a vector clock over its block, joined where threads meet. Blocks count on from launch to launch (epochs), so that what
// lies in cells from earlier is recognised as old and never has to be cleared.
#include "gpu/checks.h"

#include <sys/mman.h>

#include <algorithm>

#include "gpu/module_data.h"
#include "gpu/source_line.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

/// Who touched a byte: thread and its clock, block, and where in the code (relative to the kernel: one module).
struct Stamp {
  std::uint32_t epoch = 0;
  std::int32_t code = 0;
  std::uint32_t clock : 20 = 0, rank : 10 = 0, atomic : 1 = 0, pending : 1 = 0;  // pending: an asynchronous copy not waited for
};
struct ShadowCell { Stamp write, read, earlier_read; };

namespace {

/// Clocks of the threads of one block: clock(a, b) is what thread a has seen of thread b.
struct BlockChecks {
  unsigned threads = 0;
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> clocks;
  ShadowCell* shadow = nullptr;  ///< of the arena
  std::uint32_t& clock(unsigned of, unsigned seen) { return clocks[std::size_t{of} * threads + seen]; }
};
std::vector<BlockChecks> slots;
std::uint32_t next_epoch = 1, launch_epoch = 1;
Allocation* last_found = nullptr;

ShadowCell* make_shadow(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes * sizeof(ShadowCell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("emulator", "no memory for the shadow of " + std::to_string(bytes) + " bytes");
  return static_cast<ShadowCell*>(memory);
}

/// One access on its way through the checks.
struct Access {
  Worker& w;
  Thread& thread;
  const char* address;
  std::size_t bytes;
  AccessKind kind;
  const void* pc;
  const char* space = "global";
  std::string object;  ///< what it hits, for reports
  bool writes() const { return kind != AccessKind::read; }
  const char* verb() const {
    return kind == AccessKind::read ? "read" : kind == AccessKind::write ? "write" : kind == AccessKind::atomic ? "atomic" : "async copy";
  }
};

std::string line_of(const Worker& w, const Stamp& stamp) {
  return source_line(static_cast<const char*>(w.launch->call->function) + stamp.code);
}
std::string text_of_thread(const Launch& launch, unsigned rank) {
  const unsigned x = rank % launch.block.x, y = rank / launch.block.x % launch.block.y, z = rank / launch.block.x / launch.block.y;
  return "thread (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

[[noreturn]] void refuse(const Access& a, const std::string& problem, const std::string& remedy = {}) {
  a.thread.waits_in = nullptr;
  a.w.current = &a.thread;  // a collective touches memory for other lanes
  abandon(problem + " at " + source_line(a.pc), remedy);
}

[[noreturn]] void report_race(const Access& a, const Stamp& other, bool other_writes) {
  const bool same_block = other.epoch == slots[static_cast<std::size_t>(a.thread.block->slot)].epoch;
  std::string text = std::string("race on ") + a.space + " memory" + (a.object.empty() ? "" : " '" + a.object + "'") + ": " + a.verb() + " at " +
                     source_line(a.pc) + ", and " + (other.atomic ? "atomic" : other_writes ? "write" : "read") + " at " + line_of(a.w, other) + " by " +
                     text_of_thread(*a.w.launch, other.rank);
  if (!same_block) text += " of block " + std::to_string(other.epoch - launch_epoch);
  a.w.current = &a.thread;
  abandon(text + (same_block ? ", with no barrier between" : ""),
          same_block ? "put __syncthreads() (or __syncwarp() within a warp) between them" : "blocks of one launch run in any order");
}

/// The cells of [address, address + bytes): races, bytes that nobody wrote, copies that nobody waited for.
void check_cells(const Access& a, ShadowCell* cells, bool shared) {
  BlockChecks& block = slots[static_cast<std::size_t>(a.thread.block->slot)];
  const unsigned rank = a.thread.rank;
  const std::uint32_t* seen = &block.clocks[std::size_t{rank} * block.threads];
  const bool atomic = a.kind == AccessKind::atomic, foreign_counts = emulator_options().races_between_blocks;
  Stamp now;
  now.epoch = block.epoch;
  now.code = static_cast<std::int32_t>(static_cast<const char*>(a.pc) - static_cast<const char*>(a.w.launch->call->function));
  now.clock = seen[rank] & 0xFFFFF, now.rank = rank & 0x3FF, now.atomic = atomic, now.pending = a.kind == AccessKind::async_write;
  const auto clashes = [&](const Stamp& other) {
    if (other.epoch < launch_epoch || (other.epoch == block.epoch && other.rank == now.rank) || (atomic && other.atomic)) return false;
    return other.epoch == block.epoch ? (seen[other.rank] & 0xFFFFF) < other.clock : !shared && foreign_counts;
  };
  for (std::size_t i = 0; i < a.bytes; ++i) {
    ShadowCell& cell = cells[i];
    if (clashes(cell.write)) report_race(a, cell.write, true);
    if (a.writes() && clashes(cell.read)) report_race(a, cell.read, false);
    if (a.writes() && clashes(cell.earlier_read)) report_race(a, cell.earlier_read, false);
    if (cell.write.pending && cell.write.epoch == block.epoch && a.kind == AccessKind::read)
      refuse(a, "read of '" + a.object + "' before the asynchronous copy into it (" + line_of(a.w, cell.write) + ") was waited for",
             "cp_async_commit(), cp_async_wait<N>(), then __syncthreads()");
    if (shared && cell.write.epoch != block.epoch && a.kind != AccessKind::write && a.kind != AccessKind::async_write)
      refuse(a, "read of shared memory '" + a.object + "' that no thread of this block has written");
    if (a.writes()) {
      cell.write = now;
      cell.read = cell.earlier_read = Stamp{};
    } else {
      if (cell.read.epoch && !(cell.read.epoch == now.epoch && cell.read.rank == now.rank)) cell.earlier_read = cell.read;
      cell.read = now;
    }
  }
}

void check_shared(Access& a) {
  const Block& block = *a.thread.block;
  a.space = "shared";
  const SharedVariable* nearest = nullptr;
  for (const auto& variable : block.variables) {
    if (a.address >= variable.address && a.address + a.bytes <= variable.address + variable.bytes) {
      a.object = variable.name;
      check_cells(a, slots[static_cast<std::size_t>(block.slot)].shadow + (a.address - block.arena), true);
      return;
    }
    if (a.address + a.bytes > variable.address - kSharedGap && (!nearest || variable.address > nearest->address) &&
        variable.address <= a.address + kSharedGap)
      nearest = &variable;
  }
  std::string text = std::string("shared memory: ") + a.verb() + " of " + std::to_string(a.bytes) + " bytes outside of every variable";
  if (nearest)
    text += ", at byte " + std::to_string(a.address - nearest->address) + " of '" + nearest->name + "' (" + std::to_string(nearest->bytes) + " bytes)";
  refuse(a, text);
}

void check_global(Access& a, Allocation& allocation) {
  const std::string what = DeviceMemory::describe(allocation);
  if (allocation.freed) refuse(a, std::string("use after free: ") + a.verb() + " of " + what);
  const std::ptrdiff_t offset = a.address - allocation.address;
  if (offset < 0 || static_cast<std::size_t>(offset) + a.bytes > allocation.bytes)
    refuse(a, std::string("global memory: ") + a.verb() + " of " + std::to_string(a.bytes) + " bytes at byte " + std::to_string(offset) + " of " + what);
  a.object = allocation.name;
  if (!allocation.shadow) allocation.shadow = make_shadow(allocation.mapped_bytes);
  check_cells(a, allocation.shadow + offset, false);
}

}  // namespace

void begin_checked_launch() {
  launch_epoch = next_epoch;
  last_found = nullptr;
}

void begin_checked_block(Block& block) {
  const auto slot = static_cast<std::size_t>(block.slot);
  if (slots.size() <= slot) slots.resize(slot + 1);
  BlockChecks& checks = slots[slot];
  checks.threads = block.live;
  checks.epoch = launch_epoch + block.number;
  next_epoch = std::max(next_epoch, checks.epoch + 1);
  checks.clocks.assign(std::size_t{checks.threads} * checks.threads, 0);
  for (unsigned rank = 0; rank < checks.threads; ++rank) checks.clock(rank, rank) = 1;
  if (!checks.shadow) checks.shadow = make_shadow(kArenaBytes);
}

void join_threads(const Block& block, Thread* const* threads, std::size_t count) {
  BlockChecks& checks = slots[static_cast<std::size_t>(block.slot)];
  std::vector<std::uint32_t> all(checks.threads, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (unsigned k = 0; k < checks.threads; ++k) all[k] = std::max(all[k], checks.clock(threads[i]->rank, k));
  for (std::size_t i = 0; i < count; ++i) {
    std::copy(all.begin(), all.end(), &checks.clock(threads[i]->rank, 0));
    ++checks.clock(threads[i]->rank, threads[i]->rank);
  }
}

Space check_access(Worker& w, Thread& thread, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  Access a{w, thread, static_cast<const char*>(address), bytes, kind, pc, "global", {}};
  const Fibre& own = *thread.fibre;
  if (static_cast<std::size_t>(a.address - own.base) < own.size) return Space::local;
  const Block& block = *thread.block;
  if (a.address >= block.arena && a.address < block.arena + kArenaBytes) return check_shared(a), Space::shared;
  if (!last_found || !last_found->contains(address)) last_found = DeviceMemory::instance().find(address);
  if (last_found) return check_global(a, *last_found), Space::global;
  const KernelCall& call = *w.launch->call;
  const char* arguments = static_cast<const char*>(call.arguments.get());
  if (a.address >= arguments && a.address < arguments + call.argument_bytes) return Space::arguments;
  if (is_module_data(address)) return Space::constant;
  refuse(a, std::string(a.verb()) + " of memory that is not the device's (a host pointer was passed to the kernel, or an index is far off)",
         "allocate it with gpu::device_alloc()");
}

void refuse_misaligned(Worker& w, const void* address, std::size_t bytes, AccessKind kind, const void* pc) {
  const Access a{w, *w.current, static_cast<const char*>(address), bytes, kind, pc, "", {}};
  refuse(a, std::string("misaligned ") + a.verb() + " of " + std::to_string(bytes) + " bytes", "the address must be a multiple of the size");
}

void forget_shadow(Allocation& allocation) {
  if (allocation.shadow) munmap(allocation.shadow, allocation.mapped_bytes * sizeof(ShadowCell));
  allocation.shadow = nullptr;
  last_found = nullptr;
}

}  // namespace patchbay::gpu::emulator
