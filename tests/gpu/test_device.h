/// @file test_device.h
/// Where the tests of kernels run: on the checked emulator, or on what PATCHBAY_TEST_GPU_WORLD names (cuda, simt, simt_checked), with the same
/// references. Memory of that device, as arrays.
#pragma once
#include <vector>

#include "patchbay/gpu/emulator.h"
#include "patchbay/gpu/host.h"

namespace patchbay {
// Device memory of each world: test_device.cu.
PATCHBAY_GPU_LAUNCHER(void*, test_allocate, (std::size_t bytes, const char* name))
PATCHBAY_GPU_LAUNCHER(void, test_free, (void* pointer))
PATCHBAY_GPU_LAUNCHER(void, test_upload, (void* to, const void* from, std::size_t bytes))
PATCHBAY_GPU_LAUNCHER(void, test_download, (void* to, const void* from, std::size_t bytes))
/// "" where the world's device is at hand, else why it is not.
PATCHBAY_GPU_LAUNCHER(std::string, test_missing_device, ())

namespace test {

/// simt_checked, in builds with AddressSanitizer simt, unless PATCHBAY_TEST_GPU_WORLD says otherwise.
gpu::World test_world();
/// Both emulated worlds, or the one that PATCHBAY_TEST_GPU_WORLD names.
const std::vector<gpu::World>& test_worlds();
/// Cases about the emulator itself carry the tag [emulator]: leave them out there.
inline bool on_gpu() { return test_world() == gpu::World::cuda; }
/// Where a test asks for `simt` to save time: simt, or the GPU.
inline gpu::World fast_world() { return on_gpu() ? gpu::World::cuda : gpu::World::simt; }

/// gpu::for_each_schedule; a GPU has its own order and runs `body` once.
template <class Body>
void for_each_schedule(int count, Body&& body) {
  gpu::for_each_schedule(on_gpu() ? 1 : count, body);
}

/// gpu::DeviceArray in the memory of test_world(); bytes that nobody wrote are 0xFF (NaN in every float format).
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size, const char* name = "")
      : data_(static_cast<T*>(gpu::pick(gpu_launchers::test_allocate, test_world())(size * sizeof(T), name))), size_(size) {}
  explicit DeviceArray(const std::vector<T>& values, const char* name = "") : DeviceArray(values.size(), name) { upload(values); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { gpu::pick(gpu_launchers::test_free, test_world())(data_); }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  void upload(const std::vector<T>& values) {
    gpu::pick(gpu_launchers::test_upload, test_world())(data_, values.data(), size_ * sizeof(T));
  }
  /// What the array holds once all work given so far is done. @throws Error when that work failed.
  std::vector<T> host() const {
    std::vector<T> values(size_);
    gpu::pick(gpu_launchers::test_download, test_world())(values.data(), data_, size_ * sizeof(T));
    return values;
  }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace test
}  // namespace patchbay
