/// @file device_array.h
/// An array in device memory that goes away with its scope: what tests and small programs use.
#pragma once
#include <vector>

#include "patchbay/gpu/host.h"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size, const char* name = "")
      : data_(static_cast<T*>(device_alloc(size * sizeof(T), name))), size_(size) {}
  explicit DeviceArray(const std::vector<T>& values, const char* name = "") : DeviceArray(values.size(), name) { upload(values); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { device_free(data_); }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  void upload(const std::vector<T>& values) {
    memcpy_async(data_, values.data(), size_ * sizeof(T), CopyKind::host_to_device);
    device_synchronize();
  }
  /// What the array holds once all work given so far is done.
  std::vector<T> host() const {
    std::vector<T> values(size_);
    device_synchronize();
    memcpy_async(values.data(), data_, size_ * sizeof(T), CopyKind::device_to_host);
    device_synchronize();
    return values;
  }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu
