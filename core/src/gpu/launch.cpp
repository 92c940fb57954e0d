// A launch: its shape is checked, then its blocks are dealt out to OS threads.
#include <pthread.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include "gpu/checks.h"
#include "gpu/device_memory.h"
#include "gpu/faults.h"
#include "gpu/observer.h"
#include "gpu/source_line.h"
#include "gpu/state.h"
#include "patchbay/error.h"

namespace patchbay::gpu {
namespace {

/// The whole text as a number without sign or spaces; nothing: it is none, or too large.
std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

EmulatorOptions options_of_environment() {
  EmulatorOptions options;
  if (const char* schedule = std::getenv("PATCHBAY_SIMT_SCHEDULE"); schedule && *schedule) {
    const std::string text = schedule;
    if (text == "reverse") options.order = Order::reverse;
    else if (text != "forward") {
      options.order = Order::random;
      const auto seed = number_of(text);
      if (!seed) throw Error("environment: PATCHBAY_SIMT_SCHEDULE", "'" + text + "' is no schedule", "forward, reverse or a seed from 0 to 2^64 - 1");
      options.seed = *seed;
    }
  }
  if (const char* threads = std::getenv("PATCHBAY_SIMT_THREADS"); threads && *threads) {
    const auto count = number_of(threads);
    if (!count || *count < 1 || *count > 1024)
      throw Error("environment: PATCHBAY_SIMT_THREADS", "'" + std::string(threads) + "' is no number of threads", "1 to 1024");
    options.os_threads = static_cast<int>(*count);
    options.os_threads_given = true;
  }
  if (const char* architecture = std::getenv("PATCHBAY_SIMT_ARCHITECTURE"); architecture && *architecture) {
    const auto number = number_of(architecture);
    options.architecture = number && *number < 1000 ? static_cast<int>(*number) : -1;
    try {
      shared_limit(options.architecture);
    } catch (const Error& error) {
      throw Error("environment: PATCHBAY_SIMT_ARCHITECTURE", "'" + std::string(architecture) + "' is not emulated", error.allowed());
    }
  }
  return options;
}

std::atomic<std::uint64_t> switches_of_ended_threads{0};

}  // namespace

EmulatorOptions& emulator_options() {
  static EmulatorOptions options = options_of_environment();
  return options;
}
std::size_t shared_limit(int architecture) {
  constexpr std::pair<int, std::size_t> kLimits[] = {{80, 163 * 1024}, {89, 99 * 1024}, {90, 227 * 1024}};
  for (const auto& [known, bytes] : kLimits)
    if (known == architecture) return bytes;
  throw Error("emulator", "sm_" + std::to_string(architecture) + " is not emulated", "80, 89, 90");
}
std::string schedule_name() {
  const EmulatorOptions& options = emulator_options();
  return options.order == Order::forward ? "forward" : options.order == Order::reverse ? "reverse" : "seed " + std::to_string(options.seed);
}
std::uint64_t emulator_switches() {
  return switches_of_ended_threads + (emulator::worker ? emulator::worker->switches : 0);
}

void fail_without_cuda(const char* launcher) {
  throw Error(launcher, "this build has no CUDA", "devices simt", "configure with -DPATCHBAY_CUDA=ON (preset cuda)");
}

namespace emulator {
namespace {

std::string text_of(Dim d) { return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")"; }

Worker& worker_of_this_thread() {
  static thread_local std::unique_ptr<Worker> own;
  if (!own) {
    own = std::make_unique<Worker>();
    own->main = fibre_of_this_thread();
    worker = own.get();
  }
  return *own;
}

}  // namespace

void require_shape(Dim grid, Dim block, std::size_t shared_bytes, int architecture, const KernelCall& call) {
  const auto refuse = [&](const std::string& problem, const std::string& allowed) {
    throw Error("kernel " + kernel_name(call.function), problem, allowed);  // a name costs a call of addr2line
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64)
    refuse("a block of " + text_of(block) + " threads", "1 to 1024 threads, at most 64 of them along z");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535)
    refuse("a grid of " + text_of(grid) + " blocks", "at least 1; at most 2^31 - 1 along x, 65535 along y and z");
  if (shared_bytes > shared_limit(architecture))
    refuse(std::to_string(shared_bytes) + " bytes of dynamic shared memory",
           "at most " + std::to_string(shared_limit(architecture)) + " on sm_" + std::to_string(architecture));
}

void run_launch(Dim grid, Dim block, std::size_t shared_bytes, const StreamOptions& of_stream, const KernelCall& call) {
  const EmulatorOptions& options = emulator_options();
  Launch launch;
  launch.grid = {grid.x, grid.y, grid.z};
  launch.block = {block.x, block.y, block.z};
  launch.shared_bytes = shared_bytes;
  launch.architecture = of_stream.architecture;
  launch.call = &call;
  launch.options = &options;
  launch.blocks = std::size_t{grid.x} * grid.y * grid.z;
  launch.together = static_cast<std::size_t>(std::max(1, options.resident_blocks));
  if (call.checked) begin_checked_launch();
  const DeviceMemory::Open access;
  watch_faults();
  Worker& own = worker_of_this_thread();
  Observer* const watching = call.checked ? observer : nullptr;
  if (watching) watching->launch_begins(launch);
  {
    // The checks of a launch are one OS thread's business.
    const std::size_t extra = call.checked ? 0 : std::min<std::size_t>(static_cast<std::size_t>(of_stream.os_threads), launch.blocks) - 1;
    std::vector<std::jthread> team;
    for (std::size_t i = 0; i < extra; ++i)
      team.emplace_back([&launch] {
        Worker& w = worker_of_this_thread();
        watch_faults();
        run_blocks(w, launch);
        switches_of_ended_threads += w.switches;
      });
    run_blocks(own, launch);
  }
  if (watching) watching->launch_ends(launch, !launch.problem.empty());
  if (!launch.problem.empty()) throw Error(launch.where, launch.problem, {}, launch.remedy);
}

void refuse_clusters(const void* function, Dim cluster) {
  throw Error("kernel " + kernel_name(function), "a launch in clusters of " + text_of(cluster) + " blocks is not emulated",
              "grids without clusters", "write an sm_80 version of the kernel for the emulator, and keep this one to devices of sm_90");
}

}  // namespace emulator
}  // namespace patchbay::gpu
