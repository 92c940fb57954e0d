// Streams, events, graphs and device memory of the emulated device.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "gpu/primitives/primitives.h"
#include "patchbay/gpu/device_array.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace {

using namespace patchbay;
using gpu::CopyKind;

constexpr int kCount = 1000;
const auto add_one = gpu::pick(gpu_launchers::add_one, gpu::World::simt);

/// Memory that copies may still use after memcpy_async has returned.
struct Pinned {
  float* data = static_cast<float*>(gpu::host_alloc(kCount * sizeof(float)));
  explicit Pinned(float value) { std::fill(data, data + kCount, value); }
  ~Pinned() { gpu::host_free(data); }
};

/// What a child process says on stderr before it dies; "" when it ends by itself.
template <class Body> std::string last_words(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : text;
}

}  // namespace

TEST_CASE("a stream does its work in order, whenever that is", "[emulator]") {
  gpu::for_each_schedule(16, [] {
    const gpu::Stream stream = gpu::stream_create();
    const gpu::DeviceArray<float> x(kCount);
    Pinned in(5), out(0);
    gpu::memcpy_async(x.data(), in.data, kCount * sizeof(float), CopyKind::host_to_device, stream);
    for (int i = 0; i < 3; ++i) add_one(x.data(), kCount, stream);
    gpu::memcpy_async(out.data, x.data(), kCount * sizeof(float), CopyKind::device_to_host, stream);
    gpu::memset_async(x.data(), 0, kCount * sizeof(float), stream);
    gpu::stream_synchronize(stream);
    CHECK(out.data[0] == 8);
    CHECK(out.data[kCount - 1] == 8);
    CHECK(x.host()[7] == 0);
    gpu::stream_destroy(stream);
  });
}

TEST_CASE("who reads pinned memory before the stream is done reads old bytes, under some schedule", "[emulator]") {
  int old = 0, fresh = 0;
  gpu::for_each_schedule(16, [&] {
    const gpu::Stream stream = gpu::stream_create();
    const gpu::DeviceArray<float> x(std::vector<float>(kCount, 1));
    Pinned out(0);
    gpu::memcpy_async(out.data, x.data(), kCount * sizeof(float), CopyKind::device_to_host, stream);
    (out.data[0] == 0 ? old : fresh) += 1;
    gpu::stream_destroy(stream);
    CHECK(out.data[0] == 1);
  });
  CHECK(old > 0);
  CHECK(fresh > 0);
}

TEST_CASE("pageable memory may be used again when memcpy_async returns", "[emulator]") {
  gpu::for_each_schedule(8, [] {
    const gpu::DeviceArray<float> x(kCount);
    std::vector<float> values(kCount, 3);
    gpu::memcpy_async(x.data(), values.data(), kCount * sizeof(float), CopyKind::host_to_device);
    std::fill(values.begin(), values.end(), 0.0f);
    gpu::memcpy_async(values.data(), x.data(), kCount * sizeof(float), CopyKind::device_to_host);
    CHECK(values[0] == 3);
  });
}

TEST_CASE("events order streams", "[emulator]") {
  gpu::for_each_schedule(16, [] {
    const gpu::Stream first = gpu::stream_create(), second = gpu::stream_create();
    const gpu::Event ready = gpu::event_create(), done = gpu::event_create();
    const gpu::DeviceArray<float> x(std::vector<float>(kCount, 1));
    for (int i = 0; i < 4; ++i) add_one(x.data(), kCount, first);
    gpu::event_record(ready, first);
    gpu::stream_wait(second, ready);
    Pinned out(0);
    gpu::memcpy_async(out.data, x.data(), kCount * sizeof(float), CopyKind::device_to_host, second);
    gpu::event_record(done, second);
    gpu::event_synchronize(done);
    CHECK(out.data[0] == 5);
    CHECK(gpu::event_elapsed_ms(ready, done) >= 0);
    for (const gpu::Event event : {ready, done}) gpu::event_destroy(event);
    for (const gpu::Stream stream : {first, second}) gpu::stream_destroy(stream);
  });
}

TEST_CASE("a graph is recorded over two streams, and replayed", "[emulator]") {
  gpu::for_each_schedule(8, [] {
    const gpu::Stream main = gpu::stream_create(), side = gpu::stream_create();
    const gpu::Event fork = gpu::event_create(), join = gpu::event_create();
    const gpu::DeviceArray<float> x(std::vector<float>(kCount, 0)), y(std::vector<float>(kCount, 0));
    gpu::capture_begin(main);
    gpu::event_record(fork, main);
    gpu::stream_wait(side, fork);
    add_one(x.data(), kCount, main);
    add_one(y.data(), kCount, side);
    gpu::event_record(join, side);
    gpu::stream_wait(main, join);
    gpu::memcpy_async(y.data(), x.data(), sizeof(float), CopyKind::device_to_device, main);
    CHECK(test::message_of([&] { gpu::stream_synchronize(main); }).find("is being captured") != std::string::npos);
    const gpu::Graph graph = gpu::capture_end(main);
    CHECK(x.host()[0] == 0);  // nothing has run
    for (int i = 0; i < 5; ++i) gpu::graph_launch(graph, main);
    gpu::stream_synchronize(main);
    CHECK(x.host()[1] == 5);
    CHECK(y.host()[0] == 5);
    CHECK(y.host()[1] == 5);
    add_one(y.data(), kCount, side);  // runs again as it is given
    gpu::stream_synchronize(side);
    CHECK(y.host()[1] == 6);
    gpu::graph_destroy(graph);
    for (const gpu::Event event : {fork, join}) gpu::event_destroy(event);
    for (const gpu::Stream stream : {main, side}) gpu::stream_destroy(stream);
  });
}

TEST_CASE("misuse of streams, events and graphs is an error", "[emulator]") {
  CHECK(test::message_of([] { gpu::capture_begin({}); }).find("default stream cannot be captured") != std::string::npos);
  CHECK(test::message_of([] { gpu::capture_end({}); }).find("not being captured") != std::string::npos);
  CHECK(test::message_of([] { gpu::graph_launch({}); }).find("was not captured") != std::string::npos);
  CHECK(test::message_of([] { gpu::event_record({}); }).find("was not created") != std::string::npos);
  const gpu::Stream stream = gpu::stream_create();
  gpu::stream_destroy(stream);
  CHECK(test::message_of([&] { gpu::stream_synchronize(stream); }).find("was destroyed") != std::string::npos);
  const gpu::Event event = gpu::event_create();
  CHECK(test::message_of([&] { gpu::event_elapsed_ms(event, event); }).find("has not happened yet") != std::string::npos);
  gpu::event_destroy(event);
}

TEST_CASE("copies that leave an allocation, or mistake whose memory it is, are errors", "[emulator]") {
  const gpu::DeviceArray<float> x(kCount, "x");
  std::vector<float> host(2 * kCount);
  const auto copy = [&](void* to, const void* from, std::size_t count, CopyKind kind) {
    return test::message_of([&] { gpu::memcpy_async(to, from, count * sizeof(float), kind); });
  };
  CHECK(copy(x.data(), host.data(), kCount, CopyKind::host_to_device) == "no error");
  CHECK(copy(x.data() + 1, host.data(), kCount, CopyKind::host_to_device) ==
        "memcpy_async: destination: 4000 bytes from byte 4 leave allocation 'x' of 4000 bytes");
  CHECK(copy(host.data(), x.data() + kCount, 1, CopyKind::device_to_host).find("leave allocation 'x'") != std::string::npos);
  CHECK(copy(host.data(), host.data() + kCount, kCount, CopyKind::device_to_host).find("source: the pointer is not device memory") != std::string::npos);
  CHECK(copy(x.data(), x.data(), kCount, CopyKind::host_to_device).find("source: the pointer is device memory") != std::string::npos);
  CHECK(test::message_of([] { gpu::device_alloc(std::size_t{1} << 60, "all"); }).find("no memory for 1152921504606846976 bytes of 'all'") != std::string::npos);
}

TEST_CASE("host code that touches device memory is told so, and dies", "[emulator]") {
  const gpu::DeviceArray<float> x(kCount, "weights");
  volatile float* pointer = x.data();
  float* freed = static_cast<float*>(gpu::device_alloc(4000, "scratch"));
  gpu::device_free(freed);
  CHECK(last_words([&] { pointer[2] = 1; }).find("patchbay: host code touches device memory: byte 8 of allocation 'weights' of 4000 bytes") != std::string::npos);
  CHECK(last_words([&] { (void)static_cast<float>(pointer[0]); }).find("host code touches device memory") != std::string::npos);
  CHECK(last_words([&] { static_cast<volatile float*>(freed)[0] = 1; }).find("allocation 'scratch' of 4000 bytes, which was freed") != std::string::npos);
  CHECK(last_words([] {}) == "");
}
