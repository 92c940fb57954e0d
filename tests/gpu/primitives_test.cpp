// Each primitive of the emulator against its definition, in both worlds, under several schedules.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <random>

#include "gpu/primitives/primitives.h"
#include "gpu/test_device.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace {

using namespace patchbay;
using test::DeviceArray;

template <class Body> void everywhere(Body body) {
  for (const gpu::World world : test::test_worlds())
    test::for_each_schedule(8, [&] {
      INFO("schedule " << gpu::schedule_name() << (world == gpu::World::simt ? ", simt" : world == gpu::World::cuda ? ", cuda" : ", simt_checked"));
      body(world);
    });
}

/// Products of small random matrices: the fragments' layout is right when every element is.
template <class T, class Sum, class Launcher> void check_product(const Launcher& launcher, float largest) {
  constexpr int kDepth = 32 / static_cast<int>(sizeof(T));
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> uniform(-largest, largest);
  std::vector<T> a(16 * kDepth), b(kDepth * 8);
  for (auto* matrix : {&a, &b})
    for (auto& element : *matrix) element = T(uniform(generator));
  everywhere([&](gpu::World world) {
    const DeviceArray<T> da(a), db(b);
    const DeviceArray<Sum> d(16 * 8);
    gpu::pick(launcher, world)(da.data(), db.data(), d.data(), {});
    const auto got = d.host();
    for (int row = 0; row < 16; ++row)
      for (int col = 0; col < 8; ++col) {
        double wanted = 0;
        for (int k = 0; k < kDepth; ++k) wanted += static_cast<double>(static_cast<float>(a[row * kDepth + k])) * static_cast<float>(b[k * 8 + col]);
        CHECK(static_cast<double>(got[row * 8 + col]) == Approx(wanted).margin(std::is_same_v<Sum, int> ? 0 : 1e-4).epsilon(1e-5));
      }
  });
}

}  // namespace

TEST_CASE("shuffles: every lane gets the lane that it names, in whole and partial warps") {
  for (const int n : {32, 64, 80, 7, 1}) {
    everywhere([&](gpu::World world) {
      const DeviceArray<int> out(7 * n);
      gpu::pick(gpu_launchers::shuffles, world)(out.data(), n, {});
      const auto got = out.host();
      for (int i = 0; i < n; ++i) {
        INFO("thread " << i << " of " << n);
        const int warp = i / 32 * 32, lane = i % 32, lanes = std::min(32, n - warp), whole = lanes == 32;
        const auto of = [&](int source) { return 100 + warp + source; };
        CHECK(got[0 * n + i] == of((i * 7) % lanes));
        CHECK(got[1 * n + i] == of(lane >= 3 ? lane - 3 : lane));
        CHECK(got[2 * n + i] == (lane + 5 < lanes ? of(lane + 5) : -1));
        CHECK(got[3 * n + i] == (whole ? of(lane ^ 9) : -1));
        CHECK(got[4 * n + i] == (whole ? of(lane / 8 * 8 + 2) : -1));
        CHECK(got[5 * n + i] == (whole ? of(lane % 8 + 3 < 8 ? lane + 3 : lane) : -1));
        // A source in an earlier part of the warp is read, one in a later part is not (CUDA's rule for widths below 32).
        CHECK(got[6 * n + i] == (whole ? of((lane ^ 6) < lane / 4 * 4 + 4 ? lane ^ 6 : lane) : -1));
      }
    });
  }
}

TEST_CASE("votes and matches") {
  for (const int n : {64, 45}) {
    everywhere([&](gpu::World world) {
      const DeviceArray<unsigned> out(7 * n);
      gpu::pick(gpu_launchers::votes, world)(out.data(), n, {});
      const auto got = out.host();
      for (int i = 0; i < n; ++i) {
        INFO("thread " << i << " of " << n);
        const int warp = i / 32 * 32, lanes = std::min(32, n - warp);
        unsigned thirds = 0, equal = 0, mask = 0;
        bool any = false, all = true;
        for (int l = 0; l < lanes; ++l) {
          mask |= 1u << l;
          thirds |= static_cast<unsigned>((warp + l) % 3 == 0) << l;
          equal |= static_cast<unsigned>((warp + l) % 5 == i % 5) << l;
          any |= warp + l == 40;
          all &= warp + l < 40;
        }
        CHECK(got[0 * n + i] == thirds);
        CHECK(got[1 * n + i] == static_cast<unsigned>(any));
        CHECK(got[2 * n + i] == static_cast<unsigned>(all));
        CHECK(got[3 * n + i] == equal);
        CHECK(got[4 * n + i] == mask + 1);
        CHECK(got[5 * n + i] == 1);
        CHECK(got[6 * n + i] == ((i % 2 ? 0xAAAAAAAAu : 0x55555555u) & mask));
      }
    });
  }
}

TEST_CASE("reductions of a warp and of a block, odd numbers of warps too") {
  everywhere([&](gpu::World world) {
    const DeviceArray<int> out(10 * 32);
    gpu::pick(gpu_launchers::reductions, world)(out.data(), {});
    int sum = 0, smallest = 1000, largest = -1000, conjunction = -1, disjunction = 0, parity = 0;
    for (int i = 0; i < 32; ++i) {
      const int value = (i * 37 + 11) % 32 - 16;
      sum += value, smallest = std::min(smallest, value), largest = std::max(largest, value);
      conjunction &= value, disjunction |= value, parity ^= value;
    }
    const auto got = out.host();
    const std::array<int, 9> wanted = {sum, smallest, largest, conjunction, disjunction, parity, sum, largest, smallest};
    for (int k = 0; k < 9; ++k)
      for (int i = 0; i < 32; ++i) CHECK(got[k * 32 + i] == wanted[k]);
    for (int i = 0, prefix = 0; i < 32; ++i) CHECK(got[9 * 32 + i] == (prefix += (i * 37 + 11) % 32 - 16));
  });
  for (const int n : {32, 96, 224, 1024}) {
    everywhere([&](gpu::World world) {
      const DeviceArray<float> out(n);
      gpu::pick(gpu_launchers::block_reductions, world)(out.data(), n, {});
      float sum = 0, largest = 0;
      for (int i = 0; i < n; ++i) {
        sum += static_cast<float>((i * 29) % 101);
        largest = std::max(largest, static_cast<float>((i * 29) % 101));
      }
      for (const float value : out.host()) CHECK(value == sum + 1000000 * largest);
    });
  }
}

TEST_CASE("barriers: counts, named barriers, threads that have ended") {
  for (const int n : {64, 100, 129}) {
    everywhere([&](gpu::World world) {
      const DeviceArray<int> out(std::vector<int>(5 * n, 0));
      gpu::pick(gpu_launchers::barriers, world)(out.data(), n, {});
      const auto got = out.host();
      for (int i = 0; i < n; ++i) {
        CHECK(got[0 * n + i] == (n + 2) / 3);
        CHECK(got[1 * n + i] == 1);
        CHECK(got[2 * n + i] == 0);
        CHECK(got[3 * n + i] == (i < 64 ? 63 - i : -1));
        CHECK(got[4 * n + i] == (i < 64 ? 1 : 0));
      }
    });
  }
}

TEST_CASE("indices of grids and blocks in three dimensions, blocks on several OS threads and interleaved") {
  for (const int os_threads : {1, 3})
    for (const int resident : {1, 4}) {
      gpu::EmulatorOptions options;
      options.os_threads = os_threads, options.resident_blocks = resident;
      const gpu::ScopedOptions scope(options);
      for (const gpu::World world : test::test_worlds()) {
        const DeviceArray<int> out(2 * 3 * 4 * 5 * 3 * 2);
        gpu::pick(gpu_launchers::indices, world)(out.data(), {2, 3, 4}, {5, 3, 2}, {});
        const auto got = out.host();
        std::size_t at = 0;
        for (int bz = 0; bz < 4; ++bz)
          for (int by = 0; by < 3; ++by)
            for (int bx = 0; bx < 2; ++bx)
              for (int tz = 0; tz < 2; ++tz)
                for (int ty = 0; ty < 3; ++ty)
                  for (int tx = 0; tx < 5; ++tx) CHECK(got[at++] == ((bz * 10 + by) * 10 + bx) * 1000 + (tz * 10 + ty) * 10 + tx);
      }
    }
}

TEST_CASE("atomic functions") {
  everywhere([&](gpu::World world) {
    const DeviceArray<unsigned> out(9, "counters");
    const DeviceArray<float> floats(1);
    gpu::pick(gpu_launchers::atomics, world)(out.data(), floats.data(), {});
    const auto got = out.host();
    CHECK(got[0] == 4950);
    CHECK(got[1] == 0u - 100);
    CHECK(got[2] == 297);
    CHECK(got[3] == 401);
    CHECK(got[4] == 0);
    CHECK(got[5] == 0x7F);
    CHECK(got[6] == 0);  // 0 ^ 1 ^ ... ^ 99
    CHECK(got[7] == 0);  // counts 0 to 9 and over: 100 steps
    CHECK(got[8] == 200);
    CHECK(floats.host()[0] == 50.0f);
  });
}

TEST_CASE("asynchronous copies of 16, 8 and 4 bytes, in part zero") {
  std::vector<float> in(128);
  for (int i = 0; i < 128; ++i) in[i] = static_cast<float>(i + 1);
  for (const int valid : {16, 8, 4, 0})
    everywhere([&](gpu::World world) {
      const DeviceArray<float> from(in), to(192);
      gpu::pick(gpu_launchers::async_copies, world)(from.data(), to.data(), valid, {});
      const auto got = to.host();
      for (int i = 0; i < 64; ++i) {
        CHECK(got[i] == in[i]);
        CHECK(got[64 + i] == (i % 4 * 4 < valid ? in[64 + i] : 0.0f));
        CHECK(got[128 + i] == in[i + 1] + in[i]);
      }
    });
}

TEST_CASE("vector loads and stores") {
  std::vector<__half> in(8 * 40);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = __half(static_cast<float>(i));
  everywhere([&](gpu::World world) {
    const DeviceArray<__half> from(in), to(in.size());
    gpu::pick(gpu_launchers::vectors, world)(from.data(), to.data(), static_cast<int>(in.size()), {});
    const auto got = to.host();
    for (std::size_t i = 0; i < in.size(); ++i) CHECK(float(got[i]) == static_cast<float>(i) * (i % 8 < 4 ? 2 : 1));
  });
}

TEST_CASE("hand-over between blocks by fence and atomic is legal, and is not reported") {
  std::vector<float> in(16 * 8);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  everywhere([&](gpu::World world) {
    const DeviceArray<float> from(in), parts(16), out(1);
    const DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
    gpu::pick(gpu_launchers::last_block_sums, world)(from.data(), parts.data(), ticket.data(), out.data(), 16, {});
    CHECK(out.host()[0] == 127.0f * 64);
  });
  gpu::EmulatorOptions options;
  options.resident_blocks = 4;
  const gpu::ScopedOptions scope(options);
  for (const gpu::World world : test::test_worlds()) {
    const DeviceArray<unsigned> turn(std::vector<unsigned>{0});
    const DeviceArray<float> out(std::vector<float>{0});
    gpu::pick(gpu_launchers::blocks_in_turn, world)(turn.data(), out.data(), 4, {});
    CHECK(out.host()[0] == 4);
  }
}

TEST_CASE("preemption at any access changes no result of a right kernel", "[emulator]") {
  for (const int one_in : {1, 7, 100})
    test::for_each_schedule(4, [&] {
      gpu::EmulatorOptions options = gpu::emulator_options();
      options.preempt_one_in = one_in;
      const gpu::ScopedOptions scope(options);
      const DeviceArray<unsigned> out(9);
      const DeviceArray<float> floats(1);
      gpu::pick(gpu_launchers::atomics, gpu::World::simt_checked)(out.data(), floats.data(), {});
      CHECK(out.host()[0] == 4950);
      CHECK(out.host()[8] == 200);
    });
}

TEST_CASE("ldmatrix: one, two, four matrices, transposed and not") {
  std::vector<std::uint16_t> in(256);
  for (int i = 0; i < 256; ++i) in[i] = static_cast<std::uint16_t>(i);
  for (const int matrices : {1, 2, 4})
    for (const bool transposed : {false, true})
      everywhere([&](gpu::World world) {
        const DeviceArray<std::uint16_t> from(in);
        const DeviceArray<std::uint32_t> out(matrices * 32);
        gpu::pick(gpu_launchers::matrix_loads, world)(from.data(), out.data(), matrices, transposed, {});
        const auto got = out.host();
        for (int m = 0; m < matrices; ++m)
          for (int lane = 0; lane < 32; ++lane) {
            const int row = lane / 4, col = lane % 4 * 2;
            const auto element = [&](int r, int c) { return static_cast<std::uint32_t>(transposed ? m * 64 + c * 8 + r : m * 64 + r * 8 + c); };
            CHECK(got[m * 32 + lane] == (element(row, col) | element(row, col + 1) << 16));
          }
      });
}

TEST_CASE("mma: five kinds of numbers against the plain product") {
  check_product<__half, float>(gpu_launchers::product_f16, 2);
  check_product<__nv_bfloat16, float>(gpu_launchers::product_bf16, 2);
  check_product<signed char, int>(gpu_launchers::product_s8, 127);
  check_product<__nv_fp8_e4m3, float>(gpu_launchers::product_e4m3, 8);
  check_product<__nv_fp8_e5m2, float>(gpu_launchers::product_e5m2, 8);
}

TEST_CASE("tables of constants may be read by kernels") {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[i] = i % 4;
  everywhere([&](gpu::World world) {
    const DeviceArray<int> from(in), to(32);
    gpu::pick(gpu_launchers::table_lookup, world)(from.data(), to.data(), {});
    const auto got = to.host();
    for (int i = 0; i < 32; ++i) CHECK(got[i] == std::array<int, 4>{3, 1, 4, 1}[i % 4]);
  });
}

TEST_CASE("launches that no GPU takes are errors", "[emulator]") {
  const DeviceArray<float> x(64);
  const auto shape = [&](gpu::Dim grid, gpu::Dim block, std::size_t shared) {
    return test::message_of([&] { gpu::pick(gpu_launchers::with_shape, gpu::World::simt)(x.data(), grid, block, shared, {}); });
  };
  CHECK(shape(1, 1024, 0) == "no error");
  CHECK(shape(1, 1025, 0) == "kernel add_one_kernel: a block of (1025,1,1) threads; allowed: 1 to 1024 threads, at most 64 of them along z");
  CHECK(shape(1, {1, 1, 65}, 0).find("a block of (1,1,65) threads") != std::string::npos);
  CHECK(shape(0, 32, 0).find("a grid of (0,1,1) blocks") != std::string::npos);
  CHECK(shape(-1, 32, 0).find("a grid of (0,1,1) blocks") != std::string::npos);
  CHECK(shape({1, 65536}, 32, 0).find("65535 along y and z") != std::string::npos);
  CHECK(shape(1, 32, 227 * 1024 + 1).find("bytes of dynamic shared memory") != std::string::npos);
  CHECK(test::message_of([&] { gpu::pick(gpu_launchers::in_clusters, gpu::World::simt)(x.data(), {}); }) ==
        "kernel add_one_kernel: a launch in clusters of (2,1,1) blocks is not emulated; allowed: grids without clusters; write an sm_80 version of the "
        "kernel for the emulator, and keep this one to devices of sm_90");
  if (!gpu_launchers::add_one.cuda)
    CHECK(test::message_of([&] { gpu::pick(gpu_launchers::add_one, gpu::World::cuda); }).find("this build has no CUDA") != std::string::npos);
}
