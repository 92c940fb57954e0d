/// @file emulated_host.h
/// Streams, events, graphs and memory of the emulated device (core/src/gpu/).
#pragma once
#include "patchbay/gpu/host.h"

namespace patchbay::gpu {
inline namespace emulated_device {

/// Devices are numbered from 0. The calling thread's next calls mean the one it uses (at first 0): memory, streams and events are made there,
/// and kernels can be launched on no other device's stream. @throws Error where there is no such device.
PATCHBAY_API int device_count();
PATCHBAY_API void device_use(int ordinal);
/// Of the device in use: "emulated, sm_90", 90, and its memory.
PATCHBAY_API std::string device_name();
PATCHBAY_API int device_architecture();
PATCHBAY_API MemoryRoom device_memory();

/// Device memory, aligned to 256 bytes and filled with 0xFF (NaN in every float format). Host code that touches it is stopped.
PATCHBAY_API void* device_alloc(std::size_t bytes, const char* name = "");
/// What frees or destroys waits for work that was given before, and throws none of its faults: the next call that waits for it does.
PATCHBAY_API void device_free(void* pointer);
/// Host memory that copies may still read or write after memcpy_async has returned.
PATCHBAY_API void* host_alloc(std::size_t bytes);
PATCHBAY_API void host_free(void* pointer);
PATCHBAY_API void memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream = {});
PATCHBAY_API void memset_async(void* to, int byte, std::size_t bytes, Stream stream = {});

PATCHBAY_API Stream stream_create();
PATCHBAY_API void stream_destroy(Stream stream);
PATCHBAY_API void stream_synchronize(Stream stream);
PATCHBAY_API void device_synchronize();
/// What `stream` is given from here on waits for the event.
PATCHBAY_API void stream_wait(Stream stream, Event event);

PATCHBAY_API Event event_create();
PATCHBAY_API void event_destroy(Event event);
PATCHBAY_API void event_record(Event event, Stream stream = {});
PATCHBAY_API void event_synchronize(Event event);
/// Milliseconds between two recorded events (of the CPU that emulates: no GPU's time).
PATCHBAY_API float event_elapsed_ms(Event from, Event to);

/// Between begin and end, work given to `stream` (and to streams that wait for its events) is recorded, not run.
PATCHBAY_API void capture_begin(Stream stream);
PATCHBAY_API Graph capture_end(Stream stream);
/// Ends a capture and forgets what it recorded.
PATCHBAY_API void capture_cancel(Stream stream) noexcept;
PATCHBAY_API void graph_launch(Graph graph, Stream stream = {});
PATCHBAY_API void graph_destroy(Graph graph);

}  // namespace emulated_device
}  // namespace patchbay::gpu
