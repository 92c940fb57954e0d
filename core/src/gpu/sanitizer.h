/// @file sanitizer.h
/// Entry points of AddressSanitizer, null where the program is built without it.
#pragma once
#include <cstddef>

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
}

namespace patchbay::gpu::emulator {

inline void poison(const void* address, std::size_t bytes) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(address, bytes);
}
inline void unpoison(const void* address, std::size_t bytes) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(address, bytes);
}

}  // namespace patchbay::gpu::emulator

#if defined(__SANITIZE_ADDRESS__)
#define PATCHBAY_NO_ASAN __attribute__((no_sanitize_address))
#else
#define PATCHBAY_NO_ASAN
#endif
