#include "gpu_clock.h"

#include "patchbay/gpu.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int kThreads = 256, kPacks = 4;

__global__ void copy_packs(uint4* __restrict__ to, const uint4* __restrict__ from, long long packs) {
  const long long first = static_cast<long long>(blockIdx.x) * kThreads * kPacks + threadIdx.x;
  uint4 held[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i)
    if (first + i * kThreads < packs) held[i] = from[first + i * kThreads];
#pragma unroll
  for (int i = 0; i < kPacks; ++i)
    if (first + i * kThreads < packs) to[first + i * kThreads] = held[i];
}

/// An event that goes away with its scope.
struct Mark {
  gpu::Event event = gpu::event_create();
  ~Mark() { gpu::event_destroy(event); }
};

}  // namespace

double bench_seconds(gpu::Stream stream, const std::function<void()>& work) {
  const Mark begin, end;
  gpu::event_record(begin.event, stream);
  work();
  gpu::event_record(end.event, stream);
  gpu::event_synchronize(end.event);
  return 1e-3 * static_cast<double>(gpu::event_elapsed_ms(begin.event, end.event));
}

void bench_copy(void* to, const void* from, std::size_t bytes, gpu::Stream stream) {
  const long long packs = static_cast<long long>(bytes / sizeof(uint4));
  if (packs == 0) return;
  gpu::launch(gpu::ceil_div(packs, static_cast<long long>(kThreads * kPacks)), kThreads, 0, stream, copy_packs, static_cast<uint4*>(to),
              static_cast<const uint4*>(from), packs);
}

std::string bench_device([[maybe_unused]] int ordinal) {
#if defined(__CUDACC__)
  cudaDeviceProp p;
  PATCHBAY_CUDA_CHECK(cudaGetDeviceProperties(&p, ordinal));
  int driver = 0, runtime = 0, clock = 0, memory_clock = 0;
  PATCHBAY_CUDA_CHECK(cudaDriverGetVersion(&driver));
  PATCHBAY_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  PATCHBAY_CUDA_CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, ordinal));
  PATCHBAY_CUDA_CHECK(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, ordinal));
  const auto number = [](const char* key, auto value) { return std::string(", \"") + key + "\": " + std::to_string(value); };
  return "{\"name\": \"" + std::string(p.name) + "\"" + number("architecture", 10 * p.major + p.minor) +
         number("multiprocessors", p.multiProcessorCount) + number("memory_bytes", p.totalGlobalMem) + number("l2_bytes", p.l2CacheSize) +
         number("shared_bytes_per_block", p.sharedMemPerBlockOptin) + number("memory_bus_bits", p.memoryBusWidth) +
         number("clock_khz", clock) + number("memory_clock_khz", memory_clock) + number("driver", driver) + number("cuda_runtime", runtime) + "}";
#else
  return "{\"name\": \"the emulator on this CPU\"}";
#endif
}

}  // namespace patchbay::PATCHBAY_GPU
