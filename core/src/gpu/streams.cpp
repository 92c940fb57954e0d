// Streams, events and graphs. Work runs when it is given; a graph keeps it and runs it again.
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>

#include "gpu/device_memory.h"
#include "gpu/state.h"
#include "patchbay/error.h"

namespace patchbay::gpu {
namespace emulator {
namespace {

using Clock = std::chrono::steady_clock;
struct GraphState { std::vector<std::function<void()>> work; };
struct StreamState { std::shared_ptr<GraphState> recording; };
struct EventState { std::optional<Clock::time_point> recorded; std::shared_ptr<GraphState> recording; };

StreamState& state_of(Stream stream) {
  static StreamState of_default_stream;
  return stream.handle ? *static_cast<StreamState*>(stream.handle) : of_default_stream;
}
EventState& state_of(Event event) {
  if (!event.handle) throw Error("gpu::Event", "the event was not created", {}, "call gpu::event_create()");
  return *static_cast<EventState*>(event.handle);
}

void give(Stream stream, std::function<void()> work) {
  if (auto& recording = state_of(stream).recording) recording->work.push_back(std::move(work));
  else work();
}
void require_no_recording(Stream stream, const char* what) {
  if (state_of(stream).recording) throw Error(what, "the stream is being captured", {}, "end the capture first");
}

}  // namespace

void launch(Dim grid, Dim block, std::size_t shared_bytes, Stream stream, KernelCall call) {
  give(stream, [=] { run_launch(grid, block, shared_bytes, call); });
}

}  // namespace emulator

inline namespace emulated_device {
using namespace emulator;

void device_free(void* pointer) { DeviceMemory::instance().free(pointer); }

void memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) {
  if (kind != CopyKind::host_to_device) DeviceMemory::instance().require(from, bytes, "memcpy_async: source");
  if (kind != CopyKind::device_to_host) DeviceMemory::instance().require(to, bytes, "memcpy_async: destination");
  give(stream, [=] {
    const DeviceMemory::Open access;
    std::memmove(to, from, bytes);
  });
}
void memset_async(void* to, int byte, std::size_t bytes, Stream stream) {
  DeviceMemory::instance().require(to, bytes, "memset_async");
  give(stream, [=] {
    const DeviceMemory::Open access;
    std::memset(to, byte, bytes);
  });
}

Stream stream_create() { return {new StreamState}; }
void stream_destroy(Stream stream) { delete static_cast<StreamState*>(stream.handle); }
void stream_synchronize(Stream stream) { require_no_recording(stream, "stream_synchronize"); }
void device_synchronize() {}
void stream_wait(Stream stream, Event event) {
  if (auto recording = state_of(event).recording) state_of(stream).recording = recording;  // the stream joins the capture
}

Event event_create() { return {new EventState}; }
void event_destroy(Event event) { delete static_cast<EventState*>(event.handle); }
void event_record(Event event, Stream stream) {
  state_of(event).recording = state_of(stream).recording;
  give(stream, [event] { state_of(event).recorded = Clock::now(); });
}
void event_synchronize(Event event) {
  if (state_of(event).recording) throw Error("event_synchronize", "the event belongs to a capture");
}
float event_elapsed_ms(Event from, Event to) {
  const auto begin = state_of(from).recorded, end = state_of(to).recorded;
  if (!begin || !end) throw Error("event_elapsed_ms", "an event was not recorded");
  return std::chrono::duration<float, std::milli>(*end - *begin).count();
}

void capture_begin(Stream stream) {
  require_no_recording(stream, "capture_begin");
  if (!stream.handle) throw Error("capture_begin", "the default stream cannot be captured", {}, "use a stream of stream_create()");
  state_of(stream).recording = std::make_shared<GraphState>();
}
Graph capture_end(Stream stream) {
  auto recording = std::move(state_of(stream).recording);
  state_of(stream).recording = nullptr;
  if (!recording) throw Error("capture_end", "the stream is not being captured");
  return {new std::shared_ptr<GraphState>(std::move(recording))};
}
void graph_launch(Graph graph, Stream stream) {
  if (!graph.handle) throw Error("graph_launch", "the graph is empty");
  auto recorded = *static_cast<std::shared_ptr<GraphState>*>(graph.handle);
  give(stream, [recorded] {
    for (const auto& work : recorded->work) work();
  });
}
void graph_destroy(Graph graph) { delete static_cast<std::shared_ptr<GraphState>*>(graph.handle); }

}  // namespace emulated_device
}  // namespace patchbay::gpu
