// Every kernel that is broken on purpose is caught, in the words that docs/broken_kernels.md shows.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "gpu/broken/broken.h"
#include "patchbay/gpu/device_array.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace {

using namespace patchbay;
using Launcher = gpu::Launcher<void(float*, gpu::Stream)>;

std::string report_of(const Launcher& launcher, gpu::World world) {
  const gpu::DeviceArray<float> out(64, "out");
  return test::message_of([&] {
    gpu::pick(launcher, world)(out.data(), {});
    gpu::device_synchronize();
  });
}

const Launcher kBroken[] = {
    gpu_launchers::missing_barrier,         gpu_launchers::missing_second_barrier,   gpu_launchers::missing_syncwarp,
    gpu_launchers::lost_update,             gpu_launchers::plain_read_beside_atomic, gpu_launchers::blocks_write_one_value,
    gpu_launchers::missing_threadfence,     gpu_launchers::device_variable_counts,   gpu_launchers::helper_writes_one_value,
    gpu_launchers::divergent_barrier,        gpu_launchers::barrier_and_shuffle,
    gpu_launchers::named_barrier_too_few,   gpu_launchers::block_waits_for_later_block,
    gpu_launchers::lane_left_early,         gpu_launchers::lane_outside_mask,        gpu_launchers::two_operations_at_once,
    gpu_launchers::caller_not_in_mask,      gpu_launchers::shared_off_by_one,        gpu_launchers::shared_inner_index,
    gpu_launchers::dynamic_shared_too_small, gpu_launchers::global_off_by_one,       gpu_launchers::misaligned_vector,
    gpu_launchers::uninitialised_shared,    gpu_launchers::wild_pointer,             gpu_launchers::stack_too_small,
    gpu_launchers::division_by_zero,        gpu_launchers::endless_recursion,
    gpu_launchers::static_shared_too_large, gpu_launchers::missing_async_wait,       gpu_launchers::wait_for_too_few_groups,
    gpu_launchers::missing_barrier_after_wait, gpu_launchers::misaligned_async_copy, gpu_launchers::misaligned_ldmatrix,
    gpu_launchers::partial_warp_mma,
};

/// Under AddressSanitizer the dimensions of arrays are its companion's business (docs/emulator.md).
bool sees(const Launcher& launcher) {
#if defined(__SANITIZE_ADDRESS__)
  return launcher.name != std::string("shared_inner_index");
#else
  return launcher.name[0] != '\0';
#endif
}

/// Kernel and report, as the page shows them: "### name", then the report as the line that begins with four spaces and "kernel".
std::map<std::string, std::string> reports_of_page() {
  std::map<std::string, std::string> reports;
  std::ifstream page(test::source_path("docs/broken_kernels.md"));
  std::string name;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("### ", 0) == 0) name = line.substr(4);
    else if (line.rfind("    kernel ", 0) == 0 && !name.empty() && !reports.count(name)) reports[name] = line.substr(4);
  }
  return reports;
}

}  // namespace

TEST_CASE("broken on purpose: each report is the one that the page shows") {
  const auto shown = reports_of_page();
  CHECK(shown.size() == std::size(kBroken));
  for (const Launcher& launcher : kBroken) {
    if (!sees(launcher)) continue;
    const std::string report = report_of(launcher, gpu::World::simt_checked);
    if (std::getenv("PATCHBAY_SHOW_REPORTS")) std::printf("### %s\n\n    %s\n\n", launcher.name, report.c_str());
    INFO(launcher.name);
    CHECK(report == (shown.count(launcher.name) ? shown.at(launcher.name) : "(not in docs/broken_kernels.md)"));
  }
}

TEST_CASE("broken on purpose: caught under every schedule") {
  for (const Launcher& launcher : kBroken) {
    if (!sees(launcher) || launcher.name == std::string("block_waits_for_later_block")) continue;  // slow, and above
    gpu::for_each_schedule(8, [&] {
      INFO(launcher.name << ", schedule " << gpu::schedule_name());
      CHECK(report_of(launcher, gpu::World::simt_checked) != "no error");
    });
  }
}

TEST_CASE("broken on purpose: after an error the next launch is fine") {
  for (const Launcher& launcher : {gpu_launchers::missing_barrier, gpu_launchers::barrier_and_shuffle, gpu_launchers::stack_too_small}) {
    CHECK(report_of(launcher, gpu::World::simt_checked) != "no error");
    CHECK(report_of(gpu_launchers::copies_input, gpu::World::simt_checked) == "no error");
  }
}

TEST_CASE("memory that a kernel may not have: freed, or the host's") {
  std::vector<float> host(64);
  float* freed = static_cast<float*>(gpu::device_alloc(64 * sizeof(float), "scratch"));
  gpu::device_free(freed);
  const auto run = [](gpu::World world, float* pointer) {
    return test::message_of([&] {
      gpu::pick(gpu_launchers::copies_input, world)(pointer, {});
      gpu::device_synchronize();
    });
  };
  CHECK(run(gpu::World::simt_checked, freed).find("use after free: read of allocation 'scratch' of 256 bytes, at memory.cu:") != std::string::npos);
  CHECK(run(gpu::World::simt, freed).find("use after free: access to byte 0 of allocation 'scratch'") != std::string::npos);
  CHECK(run(gpu::World::simt_checked, host.data()).find("a host pointer was passed to the kernel") != std::string::npos);
  CHECK(test::message_of([&] { gpu::device_free(freed); }).find("was freed before") != std::string::npos);
  CHECK(test::message_of([&] { gpu::device_free(host.data()); }).find("not one that device_alloc gave") != std::string::npos);
}

TEST_CASE("an index that is far off hits no other library's memory by chance, wherever libraries lie") {
  const gpu::DeviceArray<float> x(3, "x");
  const auto report = [&](const float* from) {
    return test::message_of([&] {
      gpu::pick(gpu_launchers::copies_input, gpu::World::simt_checked)(const_cast<float*>(from), {});
      gpu::device_synchronize();
    });
  };
  for (const std::ptrdiff_t far : {-100'000'000, -1'000'000, -100'000, -20'000, 20'000, 50'000, 200'000, 3'000'000, 100'000'000}) {
    INFO(far);
    const std::string text = report(x.data() + far);
    if (text.find("use after free") != std::string::npos) continue;  // of an earlier test
    CHECK(text.find("an index is far off (byte " + std::to_string(4 * far) + " of allocation 'x' of 12 bytes, the nearest), at memory.cu:") != std::string::npos);
    CHECK(text.find("; check the index") != std::string::npos);
  }
  const void* const elsewhere[] = {&gpu::emulator_options(), reinterpret_cast<const void*>(&std::printf), stdout};  // core's data, the C library's code and data
  for (const void* address : elsewhere) {
    const auto aligned = reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{3};
    CHECK(report(reinterpret_cast<const float*>(aligned)).find("an index is far off") != std::string::npos);
  }
}

TEST_CASE("constants can be read, and not written") {
  CHECK(report_of(gpu_launchers::writes_constant, gpu::World::simt_checked).find("write of constant 'kTable', at memory.cu:") != std::string::npos);
  CHECK(report_of(gpu_launchers::writes_constant, gpu::World::simt).find("which is none of the kernel's memory") != std::string::npos);
}

TEST_CASE("a helper's line comes with its caller's, inlined or not; memory without a name with its place") {
  const gpu::DeviceArray<float> out(64);
  const std::string report = test::message_of([&] {
    gpu::pick(gpu_launchers::helper_leaves_memory, gpu::World::simt_checked)(out.data(), {});
    gpu::device_synchronize();
  });
  CHECK_THAT(report, Catch::Matches(".*byte 256 of an allocation of 256 bytes, at helper.cuh:\\d+ \\(called at memory.cu:\\d+\\).*"));
}

TEST_CASE("the plain world: division by zero and endless recursion end the launch, not the program") {
#if !defined(__SANITIZE_ADDRESS__)  // UndefinedBehaviorSanitizer sees it first, and ends the program
  CHECK(report_of(gpu_launchers::division_by_zero, gpu::World::simt).find("thread (5,0,0): integer division by zero, or of the least integer by -1, at memory.cu:") !=
        std::string::npos);
#endif
  CHECK(report_of(gpu_launchers::endless_recursion, gpu::World::simt).find("stack overflow") != std::string::npos);
}

TEST_CASE("the plain world leaves all memory: an error, no crash") {
#if defined(__SANITIZE_ADDRESS__)  // what faults is AddressSanitizer's look at what it knows of the address
  CHECK(report_of(gpu_launchers::wild_pointer, gpu::World::simt).find("access to a") != std::string::npos);
#else
  CHECK(report_of(gpu_launchers::wild_pointer, gpu::World::simt).find("access to an address that no memory can have at memory.cu:") != std::string::npos);
#endif
  CHECK(report_of(gpu_launchers::stack_too_small, gpu::World::simt).find("stack overflow") != std::string::npos);
  CHECK(report_of(gpu_launchers::copies_input, gpu::World::simt) == "no error");
}
