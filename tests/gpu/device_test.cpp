// The device of backends cuda and simt: what happens after a fault, where memory is short, with several GPUs, and on older ones.
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "device.h"
#include "gpu/device_kernels.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/gpu_device.h"
#include "support.h"

namespace patchbay::test {
namespace {

constexpr int kCount = 100;

std::unique_ptr<Device> device_of(int ordinal = 0, DeviceKind kind = DeviceKind::simt_checked) {
  std::string name;
  return gpu::pick(gpu_launchers::make_gpu_device, kind == DeviceKind::simt ? gpu::World::simt : gpu::World::simt_checked)(
      {kind, DType::f16, ordinal}, name);
}
Buffer room(Device& device) { return device.allocate(kCount * sizeof(float)); }
float* floats(const Buffer& buffer) { return buffer.tensor(DType::f32, {kCount}).as<float, 1>().data; }

void fill(Device& device, const Buffer& out, float value) {
  gpu::pick(gpu_launchers::fill, gpu::world_of(device))(floats(out), kCount, value, gpu::stream_of(device));
}
/// Gives the device work that fails. Whether at once or when it is waited for, the schedule says; true: it waits.
bool leaves_fault_behind(Device& device, const Buffer& out) {
  try {
    gpu::pick(gpu_launchers::fill_too_far, gpu::world_of(device))(floats(out), kCount, 1, gpu::stream_of(device));
    return true;
  } catch (const Error&) {
    return false;
  }
}
std::vector<float> read(Device& device, const Buffer& from) {
  std::vector<float> values(kCount);
  device.copy(from.tensor(DType::f32, {kCount}), View<float, 1>(values.data(), {kCount}));
  return values;
}
/// Everything still works.
void check_works(Device& device, float value) {
  const Buffer buffer = room(device);
  fill(device, buffer, value);
  CHECK(read(device, buffer) == std::vector<float>(kCount, value));
}
gpu::EmulatorOptions seeded(std::uint64_t seed) {
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.order = gpu::Order::random;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("device: a fault that is pending while memory is freed is told by the next wait, once, and the device works on") {
  int pending = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const gpu::ScopedOptions scope(seeded(seed));
    const auto device = device_of();
    const Buffer other = room(*device);
    std::optional<Buffer> buffer = room(*device);
    if (!leaves_fault_behind(*device, *buffer)) continue;
    ++pending;
    buffer.reset();  // its deleter waits for the kernel that fails, and may not throw
    const std::string message = message_of([&] { read(*device, other); });
    CHECK(message.find("kernel fill_kernel") != std::string::npos);
    CHECK(message.find("device_kernels.cu:") != std::string::npos);
    check_works(*device, 3);
  }
  CHECK(pending > 3);
}

TEST_CASE("device: one that goes away with a fault pending takes the process nowhere") {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const gpu::ScopedOptions scope(seeded(seed));
    std::optional<Buffer> survivor;
    {
      const auto device = device_of();
      survivor = room(*device);
      leaves_fault_behind(*device, *survivor);
    }
    survivor.reset();
    check_works(*device_of(), 4);
  }
}

TEST_CASE("device: a capture that fails says why, and is over") {
  const auto device = device_of();
  const Buffer buffer = room(*device);
  const auto failing = [&] {
    fill(*device, buffer, 1);
    throw Error("body", "went wrong");
  };
  CHECK(message_of([&] { device->capture(failing); }).find("body: went wrong") != std::string::npos);
  check_works(*device, 5);
  CHECK(read(*device, buffer) == std::vector<float>(kCount, 0));  // what was recorded never ran
  const auto graph = device->capture([&] { fill(*device, buffer, 6); });
  CHECK(read(*device, buffer) == std::vector<float>(kCount, 6));
  fill(*device, buffer, 7);
  graph->replay();
  CHECK(read(*device, buffer) == std::vector<float>(kCount, 6));
}

TEST_CASE("device: two GPUs in one process, by turns and from two threads") {
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.devices = 2;
  const gpu::ScopedOptions scope(options);
  const auto first = device_of(0), second = device_of(1);
  const Buffer one = room(*first), two = room(*second);
  CHECK(one.device() == 1);
  CHECK(two.device() == 2);
  const gpu::Stream stream = gpu::stream_of(*first);
  fill(*second, two, 2);
  // What a backend must not do: keep the stream and forget whose it is.
  CHECK(message_of([&] { gpu::pick(gpu_launchers::fill, gpu::World::simt_checked)(floats(one), kCount, 1, stream); })
            .find("the stream is one of device 0, and this thread uses device 1") != std::string::npos);
  fill(*first, one, 1);
  const auto graph = second->capture([&] { fill(*second, two, 8); });
  fill(*first, one, 9);
  graph->replay();
  CHECK(read(*first, one) == std::vector<float>(kCount, 9));
  CHECK(read(*second, two) == std::vector<float>(kCount, 8));
  std::jthread([&] { check_works(*second, 10); });  // a thread's first device is 0
  CHECK(message_of([] { device_of(2); }).find("there is no GPU 2") != std::string::npos);
}

TEST_CASE("device: where memory is short, the error says what was asked, what there is, and what helps") {
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.device_bytes = 10 << 20;
  const gpu::ScopedOptions scope(options);
  const auto device = device_of();
  const Buffer held = device->allocate(4 << 20);
  const std::string message = message_of([&] { device->allocate(7 << 20); });
  for (const char* part : {"7340032 bytes (7 MiB)", "6 MiB of 10 MiB are free", "holds 4 MiB", "gpu_layers", "max_tokens"}) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  }
  device->allocate(6 << 20);
  check_works(*device, 11);
}

TEST_CASE("device: a kernel that an RTX 4090 would not launch is refused where its architecture is emulated") {
  struct Case {
    int architecture;
    std::size_t limit;
  };
  for (const DeviceKind kind : {DeviceKind::simt, DeviceKind::simt_checked}) {
    for (const auto& [architecture, limit] : {Case{80, 163 * 1024}, Case{89, 99 * 1024}, Case{90, 227 * 1024}}) {
      std::unique_ptr<Device> device;
      {
        gpu::EmulatorOptions options = gpu::emulator_options();
        options.architecture = architecture;
        const gpu::ScopedOptions scope(options);
        device = device_of(0, kind);
      }  // the device remembers what it was made for
      const Buffer buffer = room(*device);
      const auto launch = gpu::pick(gpu_launchers::take_shared, gpu::world_of(*device));
      launch(floats(buffer), limit, gpu::stream_of(*device));
      CHECK(read(*device, buffer)[0] == 1);
      CHECK(message_of([&] { launch(floats(buffer), limit + 4, gpu::stream_of(*device)); })
                .find("at most " + std::to_string(limit) + " on sm_" + std::to_string(architecture)) != std::string::npos);
    }
  }
}

}  // namespace patchbay::test
