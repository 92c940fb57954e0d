// The functions of gpu/emulated_host.h: copies, streams, events and graphs.
#include <cstring>

#include "gpu/device_memory.h"
#include "gpu/streams.h"
#include "patchbay/error.h"
#include "patchbay/gpu/architecture.cuh"

namespace patchbay::gpu {
inline namespace emulated_device {
namespace {

using emulator::DeviceMemory;
using emulator::EventState;
using emulator::GraphState;
using emulator::Streams;
using Lock = std::lock_guard<std::recursive_mutex>;

EventState& state_of(Event event) {
  if (!event.handle) throw Error("gpu::Event", "the event was not created", {}, "call gpu::event_create()");
  return *static_cast<EventState*>(event.handle);
}
std::shared_ptr<GraphState>& state_of(Graph graph) {
  if (!graph.handle) throw Error("gpu::Graph", "the graph was not captured", {}, "call gpu::capture_end()");
  return *static_cast<std::shared_ptr<GraphState>*>(graph.handle);
}
void require_no_recording(Stream stream, const char* what) {
  if (Streams::instance().state_of(stream)->recording) throw Error(what, "the stream is being captured", {}, "end the capture first");
}
void copy(void* to, const void* from, std::size_t bytes) {
  const DeviceMemory::Open access;
  if (bytes > 0) std::memmove(to, from, bytes);  // of an empty copy either may be null
}

}  // namespace

int device_count() { return emulator_options().devices; }
void device_use(int ordinal) {
  if (ordinal < 0 || ordinal >= device_count())
    throw Error("device_use", "there is no device " + std::to_string(ordinal), "0 to " + std::to_string(device_count() - 1));
  emulator::device_in_use = ordinal;
}
int device_architecture() { return emulator_options().architecture; }
int architecture_of(Stream stream) {
  if (!stream.handle) return device_architecture();
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  return streams.state_of(stream)->options.architecture;
}
std::string device_name() { return "emulated, sm_" + std::to_string(device_architecture()); }
MemoryRoom device_memory() { return DeviceMemory::instance().room(emulator::device_in_use); }

void device_free(void* pointer) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  streams.settle_all();  // as cudaFree does
  DeviceMemory::instance().free(pointer);
}

void memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  DeviceMemory& memory = DeviceMemory::instance();
  if (kind != CopyKind::host_to_device) memory.require(from, bytes, "memcpy_async: source");
  else if (memory.find(from)) throw Error("memcpy_async: source", "the pointer is device memory", "host memory for host_to_device");
  if (kind != CopyKind::device_to_host) memory.require(to, bytes, "memcpy_async: destination");
  else if (memory.find(to)) throw Error("memcpy_async: destination", "the pointer is device memory", "host memory for device_to_host");
  const bool recorded = streams.state_of(stream)->recording != nullptr;
  if (kind == CopyKind::host_to_device && !recorded && !emulator::is_pinned(from)) {  // CUDA reads pageable memory before it returns
    auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    return streams.give(stream, [=] { copy(to, staged->data(), bytes); });
  }
  streams.give(stream, [=] { copy(to, from, bytes); });
  if (kind == CopyKind::device_to_host && !recorded && !emulator::is_pinned(to)) stream_synchronize(stream);  // and writes it
}
void memset_async(void* to, int byte, std::size_t bytes, Stream stream) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  DeviceMemory::instance().require(to, bytes, "memset_async");
  streams.give(stream, [=] {
    const DeviceMemory::Open access;
    std::memset(to, byte, bytes);
  });
}

Stream stream_create() {
  const Lock lock(Streams::instance().mutex());
  return Streams::instance().create();
}
void stream_destroy(Stream stream) {
  const Lock lock(Streams::instance().mutex());
  Streams::instance().destroy(stream);
}
void stream_synchronize(Stream stream) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  require_no_recording(stream, "stream_synchronize");
  const auto state = streams.state_of(stream);
  streams.run_until(*state, state->given);
}
void device_synchronize() {
  const Lock lock(Streams::instance().mutex());
  Streams::instance().run_all();
}
void stream_wait(Stream stream, Event event) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  EventState& awaited = state_of(event);
  if (awaited.recording) {  // the stream joins the capture
    streams.state_of(stream)->recording = awaited.recording;
    return;
  }
  if (auto other = awaited.stream) streams.give(stream, [other, ticket = awaited.ticket] { Streams::instance().run_until(*other, ticket); });
}

Event event_create() { return {new EventState}; }
void event_destroy(Event event) {
  const Lock lock(Streams::instance().mutex());
  Streams::instance().settle_all();  // queued work may still set it
  delete static_cast<EventState*>(event.handle);
}
void event_record(Event event, Stream stream) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  EventState& state = state_of(event);
  state.stream = streams.state_of(stream);
  state.recording = state.stream->recording;
  state.time.reset();
  if (!state.recording) state.ticket = state.stream->given + 1;
  streams.give(stream, [&state] { state.time = std::chrono::steady_clock::now(); });
}
void event_synchronize(Event event) {
  const Lock lock(Streams::instance().mutex());
  EventState& state = state_of(event);
  if (state.recording) throw Error("event_synchronize", "the event was recorded in a capture");
  if (state.stream) Streams::instance().run_until(*state.stream, state.ticket);
}
float event_elapsed_ms(Event from, Event to) {
  const Lock lock(Streams::instance().mutex());
  const auto begin = state_of(from).time, end = state_of(to).time;
  if (!begin || !end) throw Error("event_elapsed_ms", "an event has not happened yet", {}, "record both, then call event_synchronize()");
  return std::chrono::duration<float, std::milli>(*end - *begin).count();
}

void capture_begin(Stream stream) {
  const Lock lock(Streams::instance().mutex());
  if (!stream.handle) throw Error("capture_begin", "the default stream cannot be captured", {}, "use a stream of stream_create()");
  require_no_recording(stream, "capture_begin");
  Streams::instance().state_of(stream)->recording = std::make_shared<GraphState>();
}
Graph capture_end(Stream stream) {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  auto recording = streams.state_of(stream)->recording;
  if (!recording) throw Error("capture_end", "the stream is not being captured", {}, "call capture_begin() first");
  streams.end_recording(recording);
  return {new std::shared_ptr<GraphState>(std::move(recording))};
}
void capture_cancel(Stream stream) noexcept {
  Streams& streams = Streams::instance();
  const Lock lock(streams.mutex());
  if (const auto recording = streams.state_of(stream)->recording) streams.end_recording(recording);
}
void graph_launch(Graph graph, Stream stream) {
  const Lock lock(Streams::instance().mutex());
  Streams::instance().give(stream, [recorded = state_of(graph)] {
    for (const auto& work : recorded->work) work();
  });
}
void graph_destroy(Graph graph) { delete static_cast<std::shared_ptr<GraphState>*>(graph.handle); }

}  // namespace emulated_device
}  // namespace patchbay::gpu
