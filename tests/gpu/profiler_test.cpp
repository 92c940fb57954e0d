// Counters against kernels whose counts are known by hand, the same under every schedule.
#include <algorithm>
#include <catch2/catch.hpp>

#include "gpu/kernels/kernels.h"
#include "gpu/kernels/patterns.h"
#include "gpu/gpu_model.h"
#include "gpu/profiler.h"
#include "gpu/requests.h"
#include "patchbay/gpu/device_array.h"
#include "patchbay/gpu/emulator.h"

namespace {

using namespace patchbay;
using gpu::DeviceArray;
using gpu::Instruction;

#define CHECKED(name) (*gpu::pick(gpu_launchers::name, gpu::World::simt_checked))

/// The counters of the one launch in `body`, under four schedules that must give the same.
template <class Body> gpu::KernelCounters counters_of(Body body) {
  std::vector<gpu::KernelCounters> all;
  gpu::for_each_schedule(4, [&] {
    gpu::Profiler profiler;
    body();
    REQUIRE(profiler.launches().size() == 1);
    all.push_back(profiler.launches()[0]);
  });
  for (const auto& counters : all) {
    INFO(counters.kernel);
    CHECK(counters.instructions == all[0].instructions);
    CHECK(counters.global_traffic().sectors == all[0].global_traffic().sectors);
    CHECK(counters.shared_traffic().wavefronts == all[0].shared_traffic().wavefronts);
    CHECK(counters.all_branches().divergent == all[0].all_branches().divergent);
    CHECK(counters.dropped == 0);
  }
  return all[0];
}
/// The only site of a kind.
const gpu::SiteCounters& site(const gpu::KernelCounters& counters, Instruction what, bool shared = false) {
  const gpu::SiteCounters* found = nullptr;
  for (const auto& candidate : counters.sites) {
    if (candidate.what != what || candidate.shared != shared) continue;
    REQUIRE(found == nullptr);
    found = &candidate;
  }
  REQUIRE(found != nullptr);
  return *found;
}

gpu::KernelCounters strided(int n, int stride, int offset) {
  const DeviceArray<float> x(std::vector<float>(static_cast<std::size_t>(n * stride + offset) + 1), "x"), y(static_cast<std::size_t>(n), "y");
  return counters_of([&] { CHECKED(strided_copy)(x.data(), y.data(), n, stride, offset, {}); });
}

}  // namespace

TEST_CASE("profiler: sectors of a global load by stride and offset") {
  struct Case { int stride, offset, sectors; };
  for (const auto& [stride, offset, sectors] : {Case{1, 0, 4}, {1, 1, 5}, {2, 0, 8}, {8, 0, 32}, {32, 0, 32}, {0, 0, 1}}) {
    INFO("stride " << stride << ", offset " << offset);
    const auto counters = strided(32, stride, offset);
    const auto& load = site(counters, Instruction::global_load);
    CHECK(load.requests == 1);
    CHECK(load.lanes == 32);
    CHECK(load.bytes == 128);
    CHECK(load.unique_bytes == (stride ? 128u : 4u));
    CHECK(load.sectors == static_cast<unsigned>(sectors));
    CHECK(load.line == "patterns.cu:9");
    CHECK(load.worst.object == "x");
    CHECK(load.worst.offset[31] == (31 * stride + offset) * 4);
    CHECK(site(counters, Instruction::global_store).sectors == 4);
    CHECK(counters.read_bytes == static_cast<unsigned>(sectors) * 32);
    CHECK(counters.written_bytes == 128);
    CHECK(counters.kernel == "strided_copy_kernel");
    CHECK(counters.count(Instruction::global_load) == 1);
  }
}

TEST_CASE("profiler: a tail leaves lanes out, and its branch diverges in one warp") {
  const auto counters = strided(40, 1, 0);  // two warps of a block of 64: 32 lanes and 8
  const auto& load = site(counters, Instruction::global_load);
  CHECK(load.requests == 2);
  CHECK(load.lanes == 40);
  CHECK(load.sectors == 5);
  CHECK(counters.all_branches().executed == 2);
  CHECK(counters.all_branches().divergent == 1);
}

TEST_CASE("profiler: a float4 per lane is 16 sectors, all of them used") {
  const DeviceArray<float> x(std::vector<float>(128), "x"), y(128, "y");
  const auto counters = counters_of([&] { CHECKED(float4_copy)(x.data(), y.data(), 128, {}); });
  const auto& load = site(counters, Instruction::global_load);
  CHECK(load.requests == 1);
  CHECK(load.bytes == 512);
  CHECK(load.sectors == 16);
  CHECK(load.used() == 1.0);
  CHECK(site(counters, Instruction::global_store).sectors == 16);
}

TEST_CASE("profiler: the n-th trips of a loop are one request each") {
  const DeviceArray<float> x(std::vector<float>(32 * 7), "x"), y(32, "y");
  const auto counters = counters_of([&] { CHECKED(sum_rows)(x.data(), y.data(), 7, {}); });
  CHECK(site(counters, Instruction::global_load).requests == 7);
  CHECK(site(counters, Instruction::global_load).sectors == 28);
  CHECK(site(counters, Instruction::global_store).requests == 1);
  CHECK(counters.all_branches().divergent == 0);
  CHECK(counters.read_bytes == 7 * 128);
}

TEST_CASE("profiler: bank conflicts by stride") {
  for (const int degree : {1, 2, 8, 32}) {
    const DeviceArray<float> y(32, "y");
    const auto counters = counters_of([&] { CHECKED(banks)(y.data(), degree, {}); });
    for (const auto what : {Instruction::shared_store, Instruction::shared_load}) {
      CHECK(site(counters, what, true).requests == 1);
      CHECK(site(counters, what, true).wavefronts == static_cast<unsigned>(degree));
      CHECK(site(counters, what, true).least_wavefronts == 1);
    }
    CHECK(site(counters, Instruction::shared_load, true).worst.object == "words");
    CHECK(counters.count(Instruction::barrier) == 1);
    CHECK(counters.shared_bytes == 4096);
  }
  const DeviceArray<float> y(32, "y");
  CHECK(site(counters_of([&] { CHECKED(banks)(y.data(), 31, {}); }), Instruction::shared_load, true).wavefronts == 1);
}

TEST_CASE("profiler: 8 bytes go by halves of a warp, 16 by quarters") {
  for (const int bytes : {4, 8, 16}) {
    const DeviceArray<float> y(128, "y");
    const auto counters = counters_of([&] { CHECKED(wide_banks)(y.data(), bytes, {}); });
    CHECK(site(counters, Instruction::shared_load, true).wavefronts == static_cast<unsigned>(bytes / 4));
    CHECK(site(counters, Instruction::shared_load, true).least_wavefronts == static_cast<unsigned>(bytes / 4));
  }
}

TEST_CASE("profiler: a column more takes the conflicts out of a transposition") {
  const DeviceArray<float> x(std::vector<float>(1024), "x"), y(1024, "y");
  for (const bool padded : {false, true}) {
    const auto counters = counters_of([&] { CHECKED(transpose)(x.data(), y.data(), padded, {}); });
    CHECK(site(counters, Instruction::shared_store, true).wavefronts == 32);
    CHECK(site(counters, Instruction::shared_load, true).requests == 32);
    CHECK(site(counters, Instruction::shared_load, true).wavefronts == (padded ? 32u : 1024u));
    CHECK(counters.global_traffic().sectors == 2 * 32 * 4);
  }
}

TEST_CASE("profiler: atomics on one word wait for one another") {
  for (const int different : {1, 4, 32}) {
    const DeviceArray<int> y(32, "y");
    const auto counters = counters_of([&] { CHECKED(shared_atomics)(y.data(), different, {}); });
    CHECK(site(counters, Instruction::shared_atomic, true).wavefronts == static_cast<unsigned>(32 / different));
    CHECK(counters.count(Instruction::shared_atomic) == 1);
  }
}

TEST_CASE("profiler: branches") {
  const DeviceArray<float> y(32 * 64, "y");
  const auto split = counters_of([&] { CHECKED(two_ways)(y.data(), 64, 16, {}); });
  CHECK(split.all_branches().executed == 2);
  CHECK(split.all_branches().divergent == 2);
  CHECK(split.branches[0].line == "patterns.cu:44");
  const auto all = counters_of([&] { CHECKED(two_ways)(y.data(), 64, 32, {}); });
  CHECK(all.all_branches().divergent == 0);
  const auto even = counters_of([&] { CHECKED(loop)(y.data(), 5, 0, {}); });
  CHECK(even.all_branches().divergent == 0);
  CHECK(site(even, Instruction::global_store).requests == 5);
  const auto uneven = counters_of([&] { CHECKED(loop)(y.data(), 1, 1, {}); });  // lane l goes around l + 1 times: one lane leaves at each of 31 trips
  CHECK(uneven.all_branches().divergent == 31);
  CHECK(site(uneven, Instruction::global_store).requests == 32);
  CHECK(site(uneven, Instruction::global_store).lanes == 33 * 16);
}

TEST_CASE("profiler: a tensor-core GEMM's instructions and flops") {
  const int M = 64, N = 64, K = 64;
  const DeviceArray<__half> a(std::vector<__half>(M * K), "A"), b(std::vector<__half>(K * N), "B");
  const DeviceArray<float> c(M * N, "C");
  const auto counters = counters_of([&] { CHECKED(gemm_f16)(a.data(), b.data(), c.data(), M, N, K, {}); });
  CHECK(counters.tensor_flops.at("mma.m16n8k16") == 2 * M * N * K);
  CHECK(counters.count(Instruction::mma) == 2 * M * N * K / 4096);
  CHECK(counters.count(Instruction::ldmatrix) == 4u * (K / 16) * 6);           // 4 warps, 2 x4 and 4 x2 per 16 columns
  CHECK(counters.count(Instruction::async_copy) == 4u * (K / 32) * 4);         // 256 + 256 copies by 128 threads per 32 columns
  CHECK(counters.count(Instruction::barrier) == 4u * (K / 32) * 2);
  for (const auto& site : counters.sites) {
    if (site.what == Instruction::ldmatrix) CHECK(site.conflicts() == 0);      // the padding works
    if (site.what == Instruction::async_copy && !site.shared) CHECK(site.used() == 1.0);
  }
  // Rows of A are 80 bytes: 8 lanes write 64 bytes of two rows, words 0 to 15 and 20 to 35, and meet in banks 0 to 3.
  const auto banks = counters.shared_traffic();
  CHECK(banks.wavefronts - banks.least_wavefronts == M * K / 8 / 8);
  CHECK(counters.read_bytes == (M * K + K * N) * 2);
  CHECK(counters.written_bytes == M * N * 4);
  CHECK(counters.all_branches().divergent == 0);
}

TEST_CASE("profiler: what is not checked, and what fails, is not counted; launches add up") {
  const DeviceArray<float> y(32, "y");
  gpu::Profiler profiler;
  (*gpu::pick(gpu_launchers::banks, gpu::World::simt))(y.data(), 1, {});
  CHECK(profiler.launches().empty());
  CHECK_THROWS_AS(CHECKED(banks)(y.data(), 40, {}), Error);  // past the end of its array
  CHECK(profiler.launches().empty());
  CHECKED(banks)(y.data(), 2, {});
  CHECKED(banks)(y.data(), 8, {});
  const auto merged = gpu::merge_launches(profiler.launches());
  REQUIRE(merged.size() == 1);
  CHECK(merged[0].launches == 2);
  CHECK(site(merged[0], Instruction::shared_load, true).wavefronts == 10);
  CHECK(site(merged[0], Instruction::shared_load, true).worst.offset[1] == 32);  // the worse of the two
  CHECK_THROWS_AS(gpu::Profiler{}, Error);
}

TEST_CASE("profiler: requests that no kernel above makes") {
  gpu::Request two_objects;
  two_objects.add(0, 1000, 4);
  two_objects.add(5, 64, 4);
  two_objects.add(6, 66, 4);  // overlaps lane 5's
  std::vector<std::uint64_t> sectors;
  gpu::sectors_of(two_objects, sectors);
  CHECK(sectors == std::vector<std::uint64_t>{2, 31});
  CHECK(gpu::unique_bytes(two_objects) == 10);
  gpu::Request across;
  across.add(3, 30, 4);  // across two sectors
  gpu::sectors_of(across, sectors);
  CHECK(sectors.size() == 2);
  CHECK(gpu::wavefronts_of(across).needed == 1);
}

TEST_CASE("profiler: occupancy by hand") {
  gpu::KernelCounters kernel;
  kernel.block = {256, 1, 1};
  const auto share = [&](const char* gpu, std::optional<int> registers, std::string_view limit) {
    const auto fits = occupancy(gpu::gpu_model(gpu), kernel, registers);
    CHECK(fits.limit == limit);
    return fits.share;
  };
  CHECK(share("A100", {}, "threads") == 1.0);                    // 8 blocks of 8 warps
  CHECK(share("A100", 64, "registers") == 0.5);                  // 64 x 32 of 65536: 32 warps
  CHECK(share("A100", 33, "registers") == 0.75);                 // 33 x 32 is rounded up to 1280: 12 warps in each quarter of 16384
  CHECK(share("rtx 4090", {}, "threads") == 1.0);
  kernel.shared_bytes = 48 * 1024;
  CHECK(share("A100", {}, "shared memory") == 3 * 8 / 64.0);     // 49 KiB of 164, 1 KiB being the system's
  CHECK(share("H100", {}, "shared memory") == 4 * 8 / 64.0);
  kernel.shared_bytes = 120 * 1024;
  CHECK(share("L4", {}, "shared memory") == 0.0);                // does not run there
  kernel.shared_bytes = 0, kernel.block = {32, 1, 1};
  CHECK(share("H200", {}, "blocks") == 0.5);                     // 32 blocks of one warp
  kernel.block = {1024, 1, 1};
  CHECK(share("4090", {}, "threads") == Approx(32.0 / 48));
  CHECK_THROWS_WITH(gpu::gpu_model("V100"), Catch::Contains("'V100' is no GPU that is known here") && Catch::Contains("A100, H100, H200, RTX 4090, L4"));
}

TEST_CASE("profiler: time bounds by hand") {
  const auto& h200 = gpu::gpu_model("H200");
  gpu::KernelCounters kernel;
  kernel.grid = {132, 1, 1};
  kernel.read_bytes = 3'600'000'000'000, kernel.written_bytes = 1'200'000'000'000;
  CHECK(time_bounds(h200, kernel).memory == Approx(1.0));
  CHECK(time_bounds(h200, kernel).limit() == "memory");
  gpu::SiteCounters loads, banks;
  loads.sectors = 132ull * 1'980'000'000 * 4;                    // 128 bytes per clock and multiprocessor
  banks.shared = true, banks.wavefronts = 132ull * 1'980'000'000 * 3;
  kernel.sites = {loads, banks};
  CHECK(time_bounds(h200, kernel).cache == Approx(1.0));
  CHECK(time_bounds(h200, kernel).shared == Approx(3.0));
  CHECK(time_bounds(h200, kernel, 66.9e12).fp32 == Approx(1.0));
  kernel.tensor_flops["mma.m16n8k16"] = 989'400'000'000'000;
  CHECK(time_bounds(h200, kernel).tensor == Approx(1.0));
  CHECK(time_bounds(h200, kernel, 66.9e12).fp32 == 0.0);         // the mma do the work
  kernel.grid = {66, 1, 1};                                      // half of the multiprocessors
  CHECK(time_bounds(h200, kernel).tensor == Approx(2.0));
  CHECK(time_bounds(h200, kernel).memory == Approx(1.0));
  CHECK(time_bounds(h200, kernel).limit() == "shared");
}

TEST_CASE("profiler: the peak is that of the arithmetic that a kernel does") {
  gpu::KernelCounters kernel;
  const auto peak = [&](const char* gpu) { return peak_of(gpu::gpu_model(gpu), kernel); };
  CHECK(peak("L4").what == "fp32");
  CHECK(peak("L4").tflops == 30.3);
  kernel.tensor_flops["mma.m16n8k32.s8"] = 1;
  CHECK(peak("RTX 4090").what == "int8 tensor cores");
  CHECK(peak("RTX 4090").tflops == 660.6);
  kernel.tensor_flops["mma.m16n8k16"] = 1;                       // the slower of the two
  CHECK(peak("RTX 4090").what == "fp16 tensor cores");
  CHECK(peak("RTX 4090").tflops == 165.2);
  kernel.tensor_flops = {{"mma.m16n8k32.f8", 1}};
  CHECK(peak("H200").tflops == 1978.9);
  CHECK(peak("A100").tflops == 0);                               // it has none
}

TEST_CASE("profiler: a kernel's name as the emulator, nvcc and ncu say it") {
  CHECK(gpu::short_kernel_name("void a::(anonymous namespace)::gemm<__half>(__half const*, int)") == "gemm<__half>");
  CHECK(gpu::short_kernel_name("void patchbay::cuda::<unnamed>::gemm<patchbay::cuda::<unnamed>::Tile<64>, (int)4>(const T1 *)") == "gemm<Tile<64>, 4>");
  CHECK(gpu::short_kernel_name("copy") == "copy");
}
