// Memory of the world that this file is compiled for, for tests that g++ compiles.
#include "patchbay/gpu.h"

namespace patchbay::PATCHBAY_GPU {

void* test_allocate(std::size_t bytes, const char* name) {
  void* const pointer = gpu::device_alloc(bytes, name);
#if defined(__CUDACC__)  // the emulator's memory is so from the beginning
  gpu::memset_async(pointer, 0xFF, bytes);
  gpu::device_synchronize();
#endif
  return pointer;
}
void test_free(void* pointer) { gpu::device_free(pointer); }
void test_upload(void* to, const void* from, std::size_t bytes) {
  gpu::memcpy_async(to, from, bytes, gpu::CopyKind::host_to_device);
  gpu::device_synchronize();
}
void test_download(void* to, const void* from, std::size_t bytes) {
  gpu::device_synchronize();
  gpu::memcpy_async(to, from, bytes, gpu::CopyKind::device_to_host);
  gpu::device_synchronize();
}

std::string test_missing_device() {
#if defined(__CUDACC__)
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  if (count == 0) return "none found";
#endif
  return "";
}

}  // namespace patchbay::PATCHBAY_GPU
