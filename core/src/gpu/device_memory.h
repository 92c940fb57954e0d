/// @file device_memory.h
/// The emulated device's memory: every allocation is known by address, size and name. Host code cannot touch it: pages are open only
/// while kernels and copies run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/shadow.h"
#include "patchbay/gpu/host.h"

namespace patchbay::gpu::emulator {

struct Allocation {
  char* address = nullptr;
  std::size_t bytes = 0, mapped_bytes = 0;
  std::string name;
  int device = 0;
  bool freed = false;
  std::unique_ptr<Shadow> shadow;  ///< what checked launches know of each byte; null until one needs it
  bool contains(const void* pointer) const { return pointer >= address && pointer < address + bytes; }
};

class DeviceMemory {
 public:
  static DeviceMemory& instance();

  /// On the device that this thread uses. @throws Error when its memory is short.
  void* allocate(std::size_t bytes, const char* name);
  MemoryRoom room(int device);
  /// @throws Error when `pointer` is no allocation, or was freed before.
  void free(void* pointer);
  /// The allocation, living or freed, whose pages hold `pointer`; null when there is none.
  Allocation* find(const void* pointer);
  /// @throws Error unless all of [pointer, pointer + bytes) is one living allocation's.
  void require(const void* pointer, std::size_t bytes, const char* what);
  /// "allocation 'weights' of 4096 bytes"
  static std::string describe(const Allocation& allocation);

  /// " (byte 4096 of allocation 'x' of 12 bytes, the nearest)" for an address that is no allocation's; empty where there is none at all.
  std::string nearest_text(const void* pointer);

  /// While one exists, the pages are open to this process.
  class Open {
   public:
    Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open();
  };

 private:
  void protect(int protection);
  std::mutex mutex_;
  std::map<const char*, std::unique_ptr<Allocation>> by_address_;
  std::vector<const char*> freed_;
  std::map<int, std::size_t> held_;  ///< bytes by device
  int open_ = 0;
};

/// Host memory that copies run to and from asynchronously (gpu::host_alloc).
bool is_pinned(const void* pointer);

}  // namespace patchbay::gpu::emulator
