// Answers the calls that g++ -fsanitize=thread puts before every memory access of a checked kernel. libtsan itself is never linked.
#include <cstdint>

#include "gpu/backtrace.h"
#include "gpu/checks.h"
#include "gpu/observer.h"
#include "gpu/source_line.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {
namespace {

Instruction instruction(Space space, AccessKind kind) {
  const bool shared = space == Space::shared;
  if (space == Space::constant) return Instruction::constant_load;
  if (kind == AccessKind::atomic) return shared ? Instruction::shared_atomic : Instruction::global_atomic;
  if (kind == AccessKind::read) return shared ? Instruction::shared_load : Instruction::global_load;
  return shared ? Instruction::shared_store : Instruction::global_store;
}

inline void note(const void* address, std::size_t bytes, AccessKind kind, bool aligned, const void* pc) {
  Worker* w = worker;
  if (!w || w->quiet || !w->checked || !w->current) return;
  w->quiet = true;
  if (aligned && reinterpret_cast<std::uintptr_t>(address) % bytes) refuse_misaligned(*w, address, bytes, kind, pc);
  const Space space = check_access(*w, *w->current, address, bytes, kind, pc);
  if (observer) observer->access(*w->current, space, instruction(space, kind), address, bytes, pc);
  w->quiet = false;
  if (const int one_in = w->launch->options->preempt_one_in; one_in > 0 && next_random(*w) % static_cast<unsigned>(one_in) == 0) yield();
}

}  // namespace

void note_access(const void* pointer, std::size_t bytes, bool write, CallSite) {
  note(pointer, bytes, write ? AccessKind::write : AccessKind::read, false, __builtin_return_address(0));
}
void note_atomic(const void* pointer, std::size_t bytes, CallSite) {
  note(pointer, bytes, AccessKind::atomic, true, __builtin_return_address(0));
  // A loop that waits on an atomic makes way for the thread that it waits for.
  if (Worker& w = *worker; ++w.atomics % 256 == 0) yield();
}
void fence() {
  const Quiet quiet;
  if (worker->launch->call->checked) fence_thread(*worker->current);
}
void note_lane_access(int lane, const void* pointer, std::size_t bytes, bool write) {
  Worker& w = *worker;
  Thread& thread = *w.current->warp->lanes[lane];
  const AccessKind kind = write ? AccessKind::write : AccessKind::read;
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes)
    fail("lane " + std::to_string(lane) + " gives an address that is not aligned to " + std::to_string(bytes) + " bytes");
  if (!w.launch->call->checked) return;
  const Space space = check_access(w, thread, pointer, bytes, kind, thread.pc);
  if (observer) observer->access(thread, space, Instruction::ldmatrix, pointer, bytes, thread.pc);
}

void refuse_index(std::intptr_t index, const void* pc) {
  const bool in_kernel = worker && worker->current;
  const Callers callers = in_kernel ? callers_in_kernel(worker->launch->call->function, pc) : Callers{};
  const auto problem = [=] { return "index " + std::to_string(index) + " is outside of its dimension, at " + report_line(pc, callers); };
  if (!in_kernel) throw Error("emulator", problem());
  worker->quiet = true;
  abandon_as(*worker->current, problem);
}

}  // namespace patchbay::gpu::emulator

using patchbay::gpu::emulator::AccessKind;
using patchbay::gpu::emulator::note;

#define PATCHBAY_PC __builtin_return_address(0)
#define PATCHBAY_ACCESSES(N)                                                                                                  \
  PATCHBAY_API void __tsan_read##N(void* p) { note(p, N, AccessKind::read, true, PATCHBAY_PC); }                              \
  PATCHBAY_API void __tsan_write##N(void* p) { note(p, N, AccessKind::write, true, PATCHBAY_PC); }                            \
  PATCHBAY_API void __tsan_volatile_read##N(void* p) { note(p, N, AccessKind::read, true, PATCHBAY_PC); }                     \
  PATCHBAY_API void __tsan_volatile_write##N(void* p) { note(p, N, AccessKind::write, true, PATCHBAY_PC); }                   \
  PATCHBAY_API void __tsan_unaligned_read##N(void* p) { note(p, N, AccessKind::read, false, PATCHBAY_PC); }                   \
  PATCHBAY_API void __tsan_unaligned_write##N(void* p) { note(p, N, AccessKind::write, false, PATCHBAY_PC); }
// Atomic accesses are noted by the functions that make them (note_atomic): here they are only done.
#define PATCHBAY_ATOMICS(bits, T)                                                                                             \
  PATCHBAY_API T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }        \
  PATCHBAY_API void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }        \
  PATCHBAY_API T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  PATCHBAY_API T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  PATCHBAY_API int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int, int) {                 \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
  }                                                                                                                           \
  PATCHBAY_API int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T v, int, int) {                   \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
  }
extern "C" {
// Put at the start of every basic block by -fsanitize-coverage=trace-pc.
PATCHBAY_API void __sanitizer_cov_trace_pc() {
  using namespace patchbay::gpu::emulator;
  if (observer && worker && !worker->quiet && worker->current) observer->basic_block(*worker->current, PATCHBAY_PC);
}
// -fsanitize=bounds: an index outside of its dimension, which may still lie inside the array.
PATCHBAY_API void __ubsan_handle_out_of_bounds_abort(void*, void* index) {
  patchbay::gpu::emulator::refuse_index(reinterpret_cast<std::intptr_t>(index), PATCHBAY_PC);
}
PATCHBAY_API void __tsan_init() {}
PATCHBAY_API void __tsan_func_entry(void*) {}
PATCHBAY_API void __tsan_func_exit() {}
PATCHBAY_API void __tsan_vptr_update(void**, void*) {}
PATCHBAY_API void __tsan_vptr_read(void**) {}
PATCHBAY_API void __tsan_read_range(void* p, unsigned long n) { if (n) note(p, n, AccessKind::read, false, PATCHBAY_PC); }
PATCHBAY_API void __tsan_write_range(void* p, unsigned long n) { if (n) note(p, n, AccessKind::write, false, PATCHBAY_PC); }
PATCHBAY_ACCESSES(1)
PATCHBAY_ACCESSES(2)
PATCHBAY_ACCESSES(4)
PATCHBAY_ACCESSES(8)
PATCHBAY_ACCESSES(16)
PATCHBAY_ATOMICS(8, std::uint8_t)
PATCHBAY_ATOMICS(16, std::uint16_t)
PATCHBAY_ATOMICS(32, std::uint32_t)
PATCHBAY_ATOMICS(64, std::uint64_t)
PATCHBAY_API void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
PATCHBAY_API void __tsan_atomic_signal_fence(int) {}
}
