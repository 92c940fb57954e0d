// What the hardware's memory protection finds. In a kernel the signal handler leaves the thread for good and lets the launch end with an Error;
// in host code it says what was touched and lets the process die as it would have.
#include "gpu/faults.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "gpu/backtrace.h"
#include "gpu/device_memory.h"
#include "gpu/source_line.h"
#include "gpu/state.h"

namespace patchbay::gpu::emulator {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGFPE};
struct sigaction previous[std::size(kSignals)];
struct sigaction& previous_of(int number) { return previous[number == SIGSEGV ? 0 : 1]; }

/// The line of the instruction at `pc`; where that is not the kernel's (a library function, the emulator), of the kernel's that led there.
std::string line_of(const Worker& w, const void* pc) {
  const void* const kernel = w.launch->call->function;
  const void* after = static_cast<const char*>(pc) + 1;
  const Callers callers = callers_in_kernel(kernel, nullptr);
  return report_line(module_of(pc).base == module_of(kernel).base || !callers[0] ? after : callers[0], callers);
}

std::string address_problem(const siginfo_t& info) {
  const void* const address = info.si_addr;
  const Allocation* near = DeviceMemory::instance().find(address);
  if (near) {
    const std::ptrdiff_t offset = static_cast<const char*>(address) - near->address;
    return (near->freed ? "use after free" : "out of bounds") + std::string(": access to byte ") + std::to_string(offset) + " of " + DeviceMemory::describe(*near);
  }
  if (info.si_code != SEGV_MAPERR && info.si_code != SEGV_ACCERR) return "access to an address that no memory can have";  // the processor does not tell
  char number[32];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return std::string("access to address ") + number + (info.si_code == SEGV_MAPERR ? ", which is no memory" : ", which is none of the kernel's memory") +
         DeviceMemory::instance().nearest_text(address);
}

std::string problem_of(const Worker& w, const siginfo_t& info, const void* pc) {
  const std::string at = " at " + line_of(w, pc);
  if (info.si_signo == SIGFPE) return "integer division by zero, or of the least integer by -1," + at;
  if (w.fibres.overflown(info.si_addr)) return "stack overflow: local variables need more than the " + std::to_string(emulator_options().stack_bytes) + " bytes of a thread" + at;
  return address_problem(info) + at;
}

std::string remedy_of(const Worker& w, const siginfo_t& info) {
  if (info.si_signo == SIGFPE) return "guard it: a GPU goes on with a number that means nothing";
  if (w.fibres.overflown(info.si_addr)) return "put large arrays in shared or device memory; end the recursion";
  return w.launch->call->checked ? "check the index and the pointer" : "run the simt_checked build for the exact access";
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
  w.problem = problem_of(w, *info, reinterpret_cast<const void*>(registers[REG_RIP]));
  w.remedy = remedy_of(w, *info);
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

void handle_fault(int number, siginfo_t* info, void* context) {
#if defined(__x86_64__)
  if (worker && worker->current && worker->launch) return end_launch(*worker, info, static_cast<ucontext_t*>(context));
#else
  (void)context;
#endif
  if (number == SIGSEGV) report_host_access(info);
  sigaction(number, &previous_of(number), nullptr);  // the instruction is done again, and the former handler sees it
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
  for (const int number : kSignals) {
    struct sigaction now{};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == handle_fault) continue;
    previous_of(number) = now;
    struct sigaction ours{};
    ours.sa_sigaction = handle_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(number, &ours, nullptr);
  }
}

}  // namespace patchbay::gpu::emulator
