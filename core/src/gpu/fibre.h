/// @file fibre.h
/// Stacks that can be switched between: each CUDA thread that has begun and not ended has one.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace patchbay::gpu::emulator {

struct Fibre {
  void* stack_pointer = nullptr;  ///< where a suspended fibre stopped (x86-64)
  char* base = nullptr;           ///< lowest usable byte of the stack
  std::size_t size = 0;
  void* sanitizer_stack = nullptr;
#if !defined(__x86_64__)
  ucontext_t context;
#endif
};

/// Goes on at `to`; returns when somebody switches back to `from`. `dying`: `from` will never be gone on with.
void switch_fibre(Fibre& from, Fibre& to, bool dying);
/// To be called first by the entry function of a fibre.
void enter_fibre();
/// The stack of the calling OS thread.
Fibre fibre_of_this_thread();

/// Stacks of one OS thread, each with a guard page below. Used again; unmapped with the pool.
class FibrePool {
 public:
  FibrePool() = default;
  FibrePool(const FibrePool&) = delete;
  FibrePool& operator=(const FibrePool&) = delete;
  ~FibrePool();
  /// A fibre that begins in `entry`. @throws Error when memory is short.
  Fibre* take(void (*entry)());
  void give_back(Fibre* fibre) { free_.push_back(fibre); }
  /// Forgets what ran on any fibre: after a failed launch.
  void reset();
  /// The fibre whose guard page holds `address`, or null.
  const Fibre* overflown(const void* address) const;

 private:
  std::vector<std::unique_ptr<Fibre>> all_;
  std::vector<Fibre*> free_;
};

}  // namespace patchbay::gpu::emulator
