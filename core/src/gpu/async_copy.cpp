// cp.async. A copy is done when it is issued or as late as the wait for it, by a coin: a kernel that forgets the wait, the commit or the
// barrier after it reads old bytes under some schedule.
#include <cstring>

#include "gpu/checks.h"
#include "gpu/observer.h"
#include "gpu/state.h"

namespace patchbay::gpu::emulator {
namespace {

void do_copy(const AsyncCopy& copy) {
  if (copy.from_bytes) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.from_bytes));
  std::memset(static_cast<char*>(copy.to) + copy.from_bytes, 0, static_cast<std::size_t>(copy.bytes - copy.from_bytes));
}

}  // namespace

void async_copy(void* to, const void* from, int bytes, int from_bytes, CallSite site) {
  const Quiet quiet;
  Worker& w = *worker;
  Thread& thread = *w.current;
  if ((reinterpret_cast<std::uintptr_t>(to) | (from_bytes ? reinterpret_cast<std::uintptr_t>(from) : 0)) % static_cast<unsigned>(bytes))
    fail("cp.async at " + text_of(site) + ": an address is not aligned to " + std::to_string(bytes) + " bytes");
  if (from_bytes < 0 || from_bytes > bytes) fail("cp.async at " + text_of(site) + ": " + std::to_string(from_bytes) + " of " + std::to_string(bytes) + " bytes");
  const AsyncCopy copy{to, from, bytes, from_bytes, thread.committed_groups, __builtin_return_address(0)};
  if (w.launch->call->checked) {  // it may happen from here on: until the wait, nobody may read what it writes
    if (from_bytes) check_access(w, thread, from, static_cast<std::size_t>(from_bytes), AccessKind::read, copy.pc);
    check_access(w, thread, to, static_cast<std::size_t>(bytes), AccessKind::async_write, copy.pc);
    if (observer) observer->async_copy(thread, copy);
  }
  thread.copies.push_back(copy);
  if (emulator_options().order == Order::random && next_random(w) >> 40 & 1) {
    do_copy(copy);
    thread.copies.back().done = true;
  }
}
void async_commit() { ++worker->current->committed_groups; }
void async_wait(int groups_left) {
  const Quiet quiet;
  finish_copies(*worker->current, worker->current->committed_groups - groups_left);
}

void finish_copies(Thread& thread, int group) {
  std::size_t kept = 0;
  for (const auto& copy : thread.copies) {
    if (copy.group >= group) {
      thread.copies[kept++] = copy;
      continue;
    }
    if (!copy.done) do_copy(copy);
    if (worker->launch->call->checked) end_async_write(thread, copy.to, static_cast<std::size_t>(copy.bytes), copy.pc);
  }
  thread.copies.resize(kept);
}

}  // namespace patchbay::gpu::emulator
