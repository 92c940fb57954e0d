/// @file emulator.h
/// How the emulator runs kernels: the order of threads, and the limits it keeps. Tests use for_each_schedule().
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "patchbay/error.h"

namespace patchbay::gpu {

/// In which order the threads of a block run. All are legal on a GPU; a kernel whose result differs between them is wrong.
enum class Order {
  forward,  ///< by number
  reverse,  ///< by number, last first
  random,   ///< drawn from the seed: uniformly, or by random priorities of warps or of threads (seed % 3)
};

struct EmulatorOptions {
  Order order = Order::forward;
  std::uint64_t seed = 0;
  int os_threads = 1;             ///< blocks are dealt out to so many OS threads (unchecked launches)
  bool os_threads_given = false;  ///< PATCHBAY_SIMT_THREADS has said how many
  int resident_blocks = 1;        ///< blocks that run interleaved on one OS thread
  int preempt_one_in = 0;         ///< checked launches: another thread runs after one of so many memory accesses; 0: never
  bool races_between_blocks = true;  ///< report races on global memory between blocks
  std::size_t stack_bytes = 128 * 1024;   ///< of each CUDA thread
  int architecture = 90;          ///< whose limits and instructions there are: 80 (A100), 89 (RTX 4090, L4), 90 (H100, H200)
  int devices = 1;                ///< GPUs that there seem to be
  std::size_t device_bytes = 0;   ///< memory of each; 0: what the host gives
};
/// The options in force; at first those of the environment: PATCHBAY_SIMT_SCHEDULE (forward, reverse or a seed), PATCHBAY_SIMT_THREADS,
/// PATCHBAY_SIMT_ARCHITECTURE (80, 89 or 90). A stream of stream_create() keeps os_threads and architecture as they were when it was made.
PATCHBAY_API EmulatorOptions& emulator_options();
/// Shared memory that a block may have at most, in bytes (CUDA C++ Programming Guide, technical specifications).
/// @throws Error for an architecture that is not emulated.
PATCHBAY_API std::size_t shared_limit(int architecture);
/// "forward", "reverse" or "seed 7".
PATCHBAY_API std::string schedule_name();
/// Switches between CUDA threads so far.
PATCHBAY_API std::uint64_t emulator_switches();

/// Options that go back to what they were when the scope ends.
class PATCHBAY_API ScopedOptions {
 public:
  explicit ScopedOptions(const EmulatorOptions& options) : saved_(emulator_options()) { emulator_options() = options; }
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;
  ~ScopedOptions() { emulator_options() = saved_; }

 private:
  EmulatorOptions saved_;
};

/// Calls `body()` under `count` schedules: forward, reverse, then seeds 0, 1, 2 ... An Error is placed: "schedule seed 3: ...".
template <class Body>
void for_each_schedule(int count, Body&& body) {
  for (int i = 0; i < count; ++i) {
    EmulatorOptions options = emulator_options();
    options.order = i == 0 ? Order::forward : i == 1 ? Order::reverse : Order::random;
    options.seed = i < 2 ? 0 : static_cast<std::uint64_t>(i - 2);
    const ScopedOptions scope(options);
    try {
      body();
    } catch (const Error& error) {
      throw error.at("schedule " + schedule_name());
    }
  }
}

}  // namespace patchbay::gpu
