// What the emulator costs on this machine, per primitive and for the four kernels of tests/gpu/kernels: CPU time of the thread that runs it, the least of
// several runs, so that other programs disturb it little. docs/measurements/simt.md shows a run.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "gpu/kernels/kernels.h"
#include "patchbay/gpu/device_array.h"
#include "patchbay/gpu/emulator.h"
#include "simt_kernels.h"

namespace {

using namespace patchbay;
using gpu::DeviceArray;
using gpu::pick;
namespace launchers = patchbay::gpu_launchers;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
template <class Body> double least_seconds(Body body) {
  double least = 1e30;
  for (int run = 0; run < 7; ++run) {
    const double begin = cpu_seconds();
    body();
    gpu::device_synchronize();
    least = std::min(least, cpu_seconds() - begin);
  }
  return least;
}
/// One line: the time of one of `count` things, in both worlds.
template <class Body> void line(const char* what, const char* unit, double scale, Body body, double count = 1) {
  const double simt = least_seconds([&] { body(gpu::World::simt); }), checked = least_seconds([&] { body(gpu::World::simt_checked); });
  fmt::print("| {} | {:.1f} {} | {:.1f} {} |\n", what, simt / count * scale, unit, checked / count * scale, unit);
}

}  // namespace

int main() {
  constexpr int kBlocks = 256, kThreads = 256, kRounds = 200;
  const DeviceArray<float> x(kBlocks * kThreads);
  fmt::print("| primitive | simt | simt_checked |\n| --- | --- | --- |\n");
  const double straight = least_seconds([&] { pick(launchers::bench_straight, gpu::World::simt)(x.data(), kBlocks, kThreads, {}); });
  line("one thread from begin to end, without a wait", "ns", 1e9, [&](gpu::World w) { pick(launchers::bench_straight, w)(x.data(), kBlocks, kThreads, {}); },
       kBlocks * kThreads);
  for (const int threads : {32, 128, 1024})
    line(fmt::format("`__syncthreads`, {} threads, per thread", threads).c_str(), "ns", 1e9,
         [&](gpu::World w) { pick(launchers::bench_barriers, w)(x.data(), threads, kRounds, {}); }, static_cast<double>(threads) * kRounds);
  line("`__shfl_xor_sync`, per lane", "ns", 1e9, [&](gpu::World w) { pick(launchers::bench_shuffles, w)(x.data(), 128, kRounds, {}); }, 128.0 * kRounds);
  line("`mma` m16n8k16, per warp", "ns", 1e9, [&](gpu::World w) { pick(launchers::bench_matrices, w)(x.data(), kRounds, {}); }, kRounds);

  const int M = 128, N = 128, K = 256;
  const DeviceArray<float> a(std::vector<float>(M * K, 1)), b(std::vector<float>(K * N, 1)), c(M * N);
  const DeviceArray<__half> ha(std::vector<__half>(M * K, __half(1.0f))), hb(std::vector<__half>(K * N, __half(1.0f)));
  line("GEMM 128 x 128 x 256, tiled, fp32", "ms", 1e3, [&](gpu::World w) { pick(launchers::gemm_tiled, w)(a.data(), b.data(), c.data(), M, N, K, {}); });
  line("GEMM 128 x 128 x 256, tensor cores, fp16", "ms", 1e3, [&](gpu::World w) { pick(launchers::gemm_f16, w)(ha.data(), hb.data(), c.data(), M, N, K, {}); });
  constexpr int D = 64, kHeads = 2, kGroup = 4, kPages = 32;
  std::vector<int> table(kPages);
  for (int i = 0; i < kPages; ++i) table[i] = i;
  const DeviceArray<__half> q(std::vector<__half>(kHeads * kGroup * D, __half(0.5f))), kv(std::vector<__half>(kPages * kHeads * 16 * D, __half(0.5f)));
  const DeviceArray<int> pages(table), length(std::vector<int>{512});
  line("decode attention, 8 heads, 512 tokens, D 64", "ms", 1e3, [&](gpu::World w) {
    pick(launchers::attn_decode, w)(q.data(), kv.data(), kv.data(), pages.data(), length.data(), c.data(), 1, kHeads, kGroup, kPages, {});
  });
  fmt::print("\nThreads per second without waits, one core: {:.1f} million\n", kBlocks * kThreads / straight / 1e6);
}
