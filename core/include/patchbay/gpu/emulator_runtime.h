/// @file emulator_runtime.h
/// What the emulated CUDA names call in core (core/src/gpu/). No kernel uses this by itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "patchbay/gpu/host.h"

namespace patchbay::gpu::emulator {

/// Where a barrier or a warp operation stands in the source.
struct CallSite {
  const char* file = "";
  int line = 0;
  static constexpr CallSite here(const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE()) { return {file_, line_}; }
};

/// A kernel with its arguments, kept until its stream has come to it.
struct KernelCall {
  const void* function = nullptr;            ///< the kernel, for its name
  std::shared_ptr<const void> arguments;     ///< a tuple
  std::size_t argument_bytes = 0;
  void (*run)(const void* arguments) = nullptr;  ///< calls the kernel as one CUDA thread
  bool checked = false;                      ///< built with instrumented memory accesses
};
PATCHBAY_API void launch(Dim grid, Dim block, std::size_t shared_bytes, Stream stream, KernelCall call);
[[noreturn]] PATCHBAY_API void refuse_clusters(const void* function, Dim cluster);

/// Ends the launch with an Error that names kernel, block and thread.
[[noreturn]] PATCHBAY_API void fail(const std::string& problem, const std::string& remedy = {});
PATCHBAY_API void* static_shared(const void* key, std::size_t bytes, const char* name);
PATCHBAY_API void* dynamic_shared();
PATCHBAY_API void barrier(CallSite site);
/// A barrier that also adds up every thread's value.
PATCHBAY_API int barrier_sum(int value, const char* operation, CallSite site);
/// A barrier of `threads` threads of the block (PTX bar.sync).
PATCHBAY_API void named_barrier(int id, int threads, CallSite site);
/// Lets other threads run: called by code that waits for another thread's store.
PATCHBAY_API void yield();
PATCHBAY_API int lane_id();

/// What a warp operation is to those who watch: kind and how much work all lanes do together.
enum class WarpOperation { sync, shuffle, vote, reduce, match, ldmatrix, mma };
struct Collective {
  const char* name;
  WarpOperation kind;
  bool orders_memory = false;  ///< __syncwarp only: shuffles order nothing
  std::int64_t flops = 0;      ///< of the warp as a whole
};
/// Every lane of `mask` leaves a pointer to its arguments; the last to arrive runs `compute` once, which sees all lanes' arguments
/// (of the lanes in `active`) and fills in their results.
using WarpFunction = void (*)(void** arguments, unsigned active);
PATCHBAY_API void warp_collective(unsigned mask, const Collective& what, void* arguments, WarpFunction compute, CallSite site);

/// What a lane brings to ldmatrix and mma: see gpu/tensor_core.cuh.
struct MatrixLoad { std::uint32_t* registers; const void* row; };
struct MatrixProduct { void* d; const std::uint32_t *a, *b; };
enum class MatrixNumber { f16, bf16, s8, e4m3, e5m2 };
PATCHBAY_API void load_matrices(MatrixLoad lane, int count, bool transposed, CallSite site);
PATCHBAY_API void multiply_matrices(MatrixNumber number, MatrixProduct lane, CallSite site);

/// An asynchronous copy of `bytes` (of which `from_bytes` are read, the rest is zero): done at once or as late as its wait.
PATCHBAY_API void async_copy(void* to, const void* from, int bytes, int from_bytes, CallSite site);
PATCHBAY_API void async_commit();
PATCHBAY_API void async_wait(int groups_left);

/// Tells the checks of an access that the compiler's instrumentation does not see, by the calling thread ...
PATCHBAY_API void note_access(const void* pointer, std::size_t bytes, bool write, CallSite site);
/// ... or, inside a collective's function, by one lane of it.
PATCHBAY_API void note_lane_access(int lane, const void* pointer, std::size_t bytes, bool write);
/// __threadfence: what the thread did before may be handed to other threads by its next atomic.
PATCHBAY_API void fence();
PATCHBAY_API void note_atomic(const void* pointer, std::size_t bytes, CallSite site);

}  // namespace patchbay::gpu::emulator
