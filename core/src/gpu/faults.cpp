// What the hardware's memory protection finds. In a kernel the signal handler leaves the thread for good and lets the launch end with an Error;
// in host code it says what was touched and lets the process die as it would have.
#include "gpu/faults.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "gpu/device_memory.h"
#include "gpu/source_line.h"
#include "gpu/state.h"

namespace patchbay::gpu::emulator {
namespace {

struct sigaction previous;

std::string problem_of(const Worker& w, const void* address, const void* pc) {
  const std::string at = " at " + source_line(static_cast<const char*>(pc) + 1);
  if (w.fibres.overflown(address)) return "stack overflow: local variables need more than the " + std::to_string(emulator_options().stack_bytes) + " bytes of a thread" + at;
  char number[32];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  const Allocation* near = DeviceMemory::instance().find(address);
  if (!near) return std::string("access to address ") + number + ", which is no memory" + at;
  const std::ptrdiff_t offset = static_cast<const char*>(address) - near->address;
  return (near->freed ? "use after free" : "out of bounds") + std::string(": access to byte ") + std::to_string(offset) + " of " + DeviceMemory::describe(*near) + at;
}

#if defined(__x86_64__)
/// Where a thread that faulted goes on: on the free part of the main stack, since its own may be full.
void leave_kernel() {
  Worker& w = *worker;
  Fibre* fibre = w.current->fibre;
  w.current = nullptr;
  switch_fibre(*fibre, w.main, true);
  std::abort();
}

void end_launch(Worker& w, const siginfo_t* info, ucontext_t* context) {
  auto& registers = context->uc_mcontext.gregs;
  w.quiet = true;
  w.where = place_of(w);
  w.problem = problem_of(w, info->si_addr, reinterpret_cast<const void*>(registers[REG_RIP]));
  w.remedy = w.launch->call->checked ? "" : "run the simt_checked build for the exact access";
  const auto below = (reinterpret_cast<std::uintptr_t>(w.main.stack_pointer) - 4096) & ~std::uintptr_t{15};
  registers[REG_RSP] = static_cast<greg_t>(below - 8);  // as after a call
  registers[REG_RIP] = reinterpret_cast<greg_t>(&leave_kernel);
}
#endif

void report_host_access(const siginfo_t* info) {
  const Allocation* allocation = DeviceMemory::instance().find(info->si_addr);
  if (!allocation) return;
  std::fprintf(stderr, "patchbay: host code touches device memory: byte %td of %s%s; copy it with gpu::memcpy_async()\n",
               static_cast<const char*>(info->si_addr) - allocation->address, DeviceMemory::describe(*allocation).c_str(),
               allocation->freed ? ", which was freed" : "");
}

void handle_fault(int, siginfo_t* info, void* context) {
#if defined(__x86_64__)
  if (worker && worker->current && worker->launch) return end_launch(*worker, info, static_cast<ucontext_t*>(context));
#else
  (void)context;
#endif
  report_host_access(info);
  sigaction(SIGSEGV, &previous, nullptr);  // the access is made again, and the former handler sees it
}

/// Signals need a stack of their own where a fibre's is full.
void give_signal_stack() {
  static thread_local std::unique_ptr<char[]> memory;
  constexpr std::size_t kBytes = 256 * 1024;
  stack_t now{};
  if (memory || sigaltstack(nullptr, &now) != 0) return;
  if (!(now.ss_flags & SS_DISABLE) && now.ss_size >= kBytes / 8) return;  // a sanitizer gave one
  memory = std::make_unique<char[]>(kBytes);
  now = {};
  now.ss_sp = memory.get();
  now.ss_size = kBytes;
  sigaltstack(&now, nullptr);
}

}  // namespace

void watch_faults() {
  give_signal_stack();
  struct sigaction now{};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == handle_fault) return;
  previous = now;
  struct sigaction ours{};
  ours.sa_sigaction = handle_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace patchbay::gpu::emulator
