/// @file cuda_host.cuh
/// Streams, events, graphs and memory of the GPU, under the names of gpu/host.h.
#pragma once
#include <cuda_runtime.h>

#include "patchbay/gpu/host.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

/// What to do about it, where the text of the status does not say.
inline const char* remedy_of(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
      return "a kernel failed, and this process cannot use the GPU any more: start it again. Device simt with checked: true names the line";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no code for this GPU: configure with its architecture in CMAKE_CUDA_ARCHITECTURES";
    default: return "";
  }
}
/// A fault that is told is taken back, as far as CUDA can: the next call does not tell it again.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(call, cudaGetErrorString(status), {}, remedy_of(status));
}
#define PATCHBAY_CUDA_CHECK(call) ::patchbay::gpu::check(call, #call)

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
inline cudaEvent_t native(Event event) { return static_cast<cudaEvent_t>(event.handle); }

inline int device_count() {
  int count = 0;
  PATCHBAY_CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}
inline void device_use(int ordinal) { PATCHBAY_CUDA_CHECK(cudaSetDevice(ordinal)); }
inline int device_architecture() {
  int device = 0, major = 0, minor = 0;
  PATCHBAY_CUDA_CHECK(cudaGetDevice(&device));
  PATCHBAY_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PATCHBAY_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}
/// "NVIDIA H200, sm_90"
inline std::string device_name() {
  int device = 0;
  cudaDeviceProp properties;
  PATCHBAY_CUDA_CHECK(cudaGetDevice(&device));
  PATCHBAY_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return std::string(properties.name) + ", sm_" + std::to_string(device_architecture());
}
inline MemoryRoom device_memory() {
  MemoryRoom room;
  PATCHBAY_CUDA_CHECK(cudaMemGetInfo(&room.free, &room.total));
  return room;
}

inline void* device_alloc(std::size_t bytes, const char* = "") {
  void* pointer = nullptr;
  PATCHBAY_CUDA_CHECK(cudaMalloc(&pointer, bytes ? bytes : 1));
  return pointer;
}
inline void device_free(void* pointer) { cudaFree(pointer); }
inline void* host_alloc(std::size_t bytes) {
  void* pointer = nullptr;
  PATCHBAY_CUDA_CHECK(cudaMallocHost(&pointer, bytes ? bytes : 1));
  return pointer;
}
inline void host_free(void* pointer) { cudaFreeHost(pointer); }
inline void memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream = {}) {
  const cudaMemcpyKind direction = kind == CopyKind::host_to_device   ? cudaMemcpyHostToDevice
                                   : kind == CopyKind::device_to_host ? cudaMemcpyDeviceToHost
                                                                      : cudaMemcpyDeviceToDevice;
  PATCHBAY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, direction, native(stream)));
}
inline void memset_async(void* to, int byte, std::size_t bytes, Stream stream = {}) {
  PATCHBAY_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, native(stream)));
}

/// The stream does not wait for the default stream, as the emulator's do not.
inline Stream stream_create() {
  cudaStream_t stream = nullptr;
  PATCHBAY_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {stream};
}
inline void stream_destroy(Stream stream) { cudaStreamDestroy(native(stream)); }
inline void stream_synchronize(Stream stream) { PATCHBAY_CUDA_CHECK(cudaStreamSynchronize(native(stream))); }
inline void device_synchronize() { PATCHBAY_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void stream_wait(Stream stream, Event event) { PATCHBAY_CUDA_CHECK(cudaStreamWaitEvent(native(stream), native(event), 0)); }

inline Event event_create() {
  cudaEvent_t event = nullptr;
  PATCHBAY_CUDA_CHECK(cudaEventCreate(&event));
  return {event};
}
inline void event_destroy(Event event) { cudaEventDestroy(native(event)); }
inline void event_record(Event event, Stream stream = {}) { PATCHBAY_CUDA_CHECK(cudaEventRecord(native(event), native(stream))); }
inline void event_synchronize(Event event) { PATCHBAY_CUDA_CHECK(cudaEventSynchronize(native(event))); }
inline float event_elapsed_ms(Event from, Event to) {
  float milliseconds = 0;
  PATCHBAY_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, native(from), native(to)));
  return milliseconds;
}

inline void capture_begin(Stream stream) {
  PATCHBAY_CUDA_CHECK(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
}
inline Graph capture_end(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  PATCHBAY_CUDA_CHECK(cudaStreamEndCapture(native(stream), &graph));
  const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  return {ready};
}
inline void capture_cancel(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(native(stream), &graph) == cudaSuccess) cudaGraphDestroy(graph);
  cudaGetLastError();  // what broke the capture is told by who broke it
}
inline void graph_launch(Graph graph, Stream stream = {}) {
  PATCHBAY_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.handle), native(stream)));
}
inline void graph_destroy(Graph graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph.handle)); }

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
