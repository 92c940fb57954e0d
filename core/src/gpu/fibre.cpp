#include "gpu/fibre.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>

#include "patchbay/gpu/emulator.h"
#include "gpu/sanitizer.h"
#include "patchbay/error.h"

#if defined(__x86_64__)
// Saves the callee-saved registers, changes stacks, restores. It ends in jmp, not ret: a ret would be mispredicted on every switch
// (measured: 10 ns against 2.2 ns).
extern "C" void patchbay_switch_stack(void** save, void* load);
asm(R"(
.text
.globl patchbay_switch_stack
.hidden patchbay_switch_stack
.type patchbay_switch_stack, @function
patchbay_switch_stack:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  popq %rcx
  jmpq *%rcx
.size patchbay_switch_stack, .-patchbay_switch_stack
)");
#endif

namespace patchbay::gpu::emulator {
namespace {

constexpr std::size_t kPage = 4096;

#if defined(__x86_64__)
void prepare(Fibre& fibre, void (*entry)()) {
  void** top = reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(fibre.base) + fibre.size) & ~std::uintptr_t{15});
  *--top = nullptr;  // the entry's return address: gdb's backtrace ends here
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // rbp, rbx, r12 to r15
  fibre.stack_pointer = top;
}
PATCHBAY_NO_ASAN void switch_stack(Fibre& from, Fibre& to) { patchbay_switch_stack(&from.stack_pointer, to.stack_pointer); }
#else
void prepare(Fibre& fibre, void (*entry)()) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.base;
  fibre.context.uc_stack.ss_size = fibre.size;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, entry, 0);
}
void switch_stack(Fibre& from, Fibre& to) { swapcontext(&from.context, &to.context); }
#endif

}  // namespace

PATCHBAY_NO_ASAN void switch_fibre(Fibre& from, Fibre& to, bool dying) {
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(dying ? nullptr : &from.sanitizer_stack, to.base, to.size);
  switch_stack(from, to);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from.sanitizer_stack, nullptr, nullptr);
}
PATCHBAY_NO_ASAN void enter_fibre() {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
}

Fibre fibre_of_this_thread() {
  Fibre fibre;
  pthread_attr_t attributes;
  void* base = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) throw Error("emulator", "the stack of this thread is unknown");
  pthread_attr_getstack(&attributes, &base, &fibre.size);
  pthread_attr_destroy(&attributes);
  fibre.base = static_cast<char*>(base);
  return fibre;
}

FibrePool::~FibrePool() {
  for (const auto& fibre : all_) {
    unpoison(fibre->base, fibre->size);
    munmap(fibre->base - kPage, fibre->size + kPage);
  }
}

Fibre* FibrePool::take(void (*entry)()) {
  if (free_.empty()) {
    auto fibre = std::make_unique<Fibre>();
    // AddressSanitizer's frames are larger.
    fibre->size = (emulator_options().stack_bytes * (__sanitizer_start_switch_fiber ? 2 : 1) + kPage - 1) / kPage * kPage;
    void* memory = mmap(nullptr, fibre->size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Error("emulator", "no memory for the stack of one more CUDA thread");
    mprotect(memory, kPage, PROT_NONE);  // a thread that overflows its stack faults
    fibre->base = static_cast<char*>(memory) + kPage;
    free_.push_back(fibre.get());
    all_.push_back(std::move(fibre));
  }
  Fibre* fibre = free_.back();
  free_.pop_back();
  fibre->sanitizer_stack = nullptr;
  prepare(*fibre, entry);
  return fibre;
}

void FibrePool::reset() {
  free_.clear();
  for (const auto& fibre : all_) {
    unpoison(fibre->base, fibre->size);
    free_.push_back(fibre.get());
  }
}

const Fibre* FibrePool::overflown(const void* address) const {
  for (const auto& fibre : all_)
    if (address < fibre->base && address >= fibre->base - kPage) return fibre.get();
  return nullptr;
}

}  // namespace patchbay::gpu::emulator
