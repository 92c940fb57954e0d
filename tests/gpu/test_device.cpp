#include "gpu/test_device.h"

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <optional>

namespace patchbay::test {
namespace {

std::optional<gpu::World> named_world() {
  const char* const text = std::getenv("PATCHBAY_TEST_GPU_WORLD");
  const std::string name = text ? text : "";
  if (name.empty()) return std::nullopt;
  if (name == "cuda") return gpu::World::cuda;
  if (name == "simt") return gpu::World::simt;
  if (name == "simt_checked") return gpu::World::simt_checked;
  std::cerr << "PATCHBAY_TEST_GPU_WORLD: '" << name << "' is no world; allowed: cuda, simt, simt_checked\n";
  std::exit(2);
}

/// Without its device a program has nothing to test: ctest counts 77 as skipped.
struct NeedsDevice : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    if (!on_gpu()) return;
    const std::string missing = gpu_launchers::test_missing_device.cuda ? gpu_launchers::test_missing_device.cuda()
                                                                       : "this build has no CUDA: cmake --preset cuda makes one";
    if (missing.empty()) return;
    std::cout << "skipped: no GPU is at hand (" << missing << ")\n" << std::flush;
    std::exit(77);
  }
};
CATCH_REGISTER_LISTENER(NeedsDevice)

}  // namespace

gpu::World test_world() {
#if defined(__SANITIZE_ADDRESS__)  // built with it is `simt`, and `simt_checked` cannot be: a second opinion on every access
  constexpr auto kUsual = gpu::World::simt;
#else
  constexpr auto kUsual = gpu::World::simt_checked;
#endif
  static const gpu::World world = named_world().value_or(kUsual);
  return world;
}

const std::vector<gpu::World>& test_worlds() {
  static const auto named = named_world();
  static const std::vector<gpu::World> worlds =
      named ? std::vector<gpu::World>{*named} : std::vector<gpu::World>{gpu::World::simt, gpu::World::simt_checked};
  return worlds;
}

}  // namespace patchbay::test
