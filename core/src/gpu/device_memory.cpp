#include "gpu/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "gpu/checks.h"
#include "gpu/faults.h"
#include "gpu/sanitizer.h"
#include "gpu/streams.h"
#include "patchbay/error.h"

namespace patchbay::gpu {
namespace emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRememberedFrees = 4096;

}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory* memory = new DeviceMemory;  // never destroyed: threads and statics may outlive any order
  return *memory;
}

std::string DeviceMemory::describe(const Allocation& allocation) {
  std::string text = allocation.name.empty() ? "an allocation" : "allocation '" + allocation.name + "'";
  return text + " of " + std::to_string(allocation.bytes) + " bytes";
}

void* DeviceMemory::allocate(std::size_t bytes, const char* name) {
  const std::size_t mapped = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  // One page more on each side that is never opened.
  void* memory = bytes > room(device_in_use).free ? MAP_FAILED : mmap(nullptr, mapped + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("device_alloc", "no memory for " + std::to_string(bytes) + " bytes" + (*name ? std::string(" of '") + name + "'" : std::string()));
  watch_faults();
  auto allocation = std::make_unique<Allocation>();
  allocation->address = static_cast<char*>(memory) + kPage;
  allocation->bytes = bytes;
  allocation->mapped_bytes = mapped;
  allocation->name = name;
  allocation->device = device_in_use;
  mprotect(allocation->address, mapped, PROT_READ | PROT_WRITE);
  std::memset(allocation->address, 0xFF, mapped);  // NaN in every float format
  poison(allocation->address + bytes, mapped - bytes);
  const std::lock_guard lock(mutex_);
  if (!open_) mprotect(allocation->address, mapped, PROT_NONE);
  char* address = allocation->address;
  held_[device_in_use] += bytes;
  by_address_[address] = std::move(allocation);
  return address;
}

MemoryRoom DeviceMemory::room(int device) {
  const std::lock_guard lock(mutex_);
  std::size_t total = emulator_options().device_bytes;
  if (total == 0) total = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  return {total - std::min(total, held_[device]), total};
}

void DeviceMemory::free(void* pointer) {
  if (!pointer) return;
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(static_cast<char*>(pointer));
  if (found == by_address_.end()) throw Error("device_free", "the pointer is not one that device_alloc gave");
  Allocation& allocation = *found->second;
  if (allocation.freed) throw Error("device_free", describe(allocation) + " was freed before");
  allocation.freed = true;
  held_[allocation.device] -= allocation.bytes;
  unpoison(allocation.address, allocation.mapped_bytes);
  // The addresses stay taken for a while, so that a use after free is seen as one.
  mmap(allocation.address, allocation.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  forget_shadow(allocation);
  freed_.push_back(allocation.address);
  if (freed_.size() > kRememberedFrees) {
    const auto oldest = by_address_.find(freed_.front());
    munmap(oldest->second->address - kPage, oldest->second->mapped_bytes + 2 * kPage);
    by_address_.erase(oldest);
    freed_.erase(freed_.begin());
  }
}

Allocation* DeviceMemory::find(const void* pointer) {
  const std::lock_guard lock(mutex_);
  auto next = by_address_.upper_bound(static_cast<const char*>(pointer) + kPage);
  if (next == by_address_.begin()) return nullptr;
  Allocation& allocation = *std::prev(next)->second;
  return pointer < allocation.address + allocation.mapped_bytes + kPage ? &allocation : nullptr;
}

std::string DeviceMemory::nearest_text(const void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<std::intptr_t>(pointer);
  const Allocation* nearest = nullptr;
  std::intptr_t least = std::numeric_limits<std::intptr_t>::max();
  for (const auto& [address, allocation] : by_address_) {
    const auto begin = reinterpret_cast<std::intptr_t>(address), end = begin + static_cast<std::intptr_t>(allocation->bytes);
    const std::intptr_t distance = at < begin ? begin - at : at - end;
    if (!allocation->freed && distance < least) least = distance, nearest = allocation.get();
  }
  if (!nearest) return "";
  return " (byte " + std::to_string(at - reinterpret_cast<std::intptr_t>(nearest->address)) + " of " + describe(*nearest) + ", the nearest)";
}

void DeviceMemory::require(const void* pointer, std::size_t bytes, const char* what) {
  if (!bytes) return;
  const Allocation* allocation = find(pointer);
  if (!allocation) throw Error(what, "the pointer is not device memory", "memory of device_alloc");
  if (allocation->freed) throw Error(what, describe(*allocation) + " was freed");
  const auto offset = static_cast<const char*>(pointer) - allocation->address;
  if (offset < 0 || static_cast<std::size_t>(offset) > allocation->bytes || bytes > allocation->bytes - static_cast<std::size_t>(offset))
    throw Error(what, std::to_string(bytes) + " bytes from byte " + std::to_string(offset) + " leave " + describe(*allocation));
}

void DeviceMemory::protect(int protection) {
  for (const auto& [address, allocation] : by_address_)
    if (!allocation->freed) mprotect(allocation->address, allocation->mapped_bytes, protection);
}
DeviceMemory::Open::Open() {
  DeviceMemory& memory = instance();
  const std::lock_guard lock(memory.mutex_);
  if (memory.open_++ == 0) memory.protect(PROT_READ | PROT_WRITE);
}
DeviceMemory::Open::~Open() {
  watch_faults();
  DeviceMemory& memory = instance();
  const std::lock_guard lock(memory.mutex_);
  if (--memory.open_ == 0) memory.protect(PROT_NONE);
}

namespace {
std::mutex pinned_mutex;
std::map<const char*, std::size_t>& pinned() {
  static auto* ranges = new std::map<const char*, std::size_t>;
  return *ranges;
}
}  // namespace

bool is_pinned(const void* pointer) {
  const std::lock_guard lock(pinned_mutex);
  auto next = pinned().upper_bound(static_cast<const char*>(pointer));
  if (next == pinned().begin()) return false;
  --next;
  return pointer < next->first + next->second;
}

}  // namespace emulator

inline namespace emulated_device {

void* device_alloc(std::size_t bytes, const char* name) { return emulator::DeviceMemory::instance().allocate(bytes, name); }

void* host_alloc(std::size_t bytes) {
  void* pointer = std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (!pointer) throw Error("host_alloc", "no memory for " + std::to_string(bytes) + " bytes");
  const std::lock_guard lock(emulator::pinned_mutex);
  emulator::pinned()[static_cast<char*>(pointer)] = bytes;
  return pointer;
}
void host_free(void* pointer) {
  const std::lock_guard lock(emulator::pinned_mutex);
  emulator::pinned().erase(static_cast<char*>(pointer));
  std::free(pointer);
}

}  // namespace emulated_device
}  // namespace patchbay::gpu
