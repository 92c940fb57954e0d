// A library to preload into a program: the n-th allocation, read or write since main() began fails. What the program then does is the
// subject of e2e/faults_test.cpp. Set by the environment:
//   PATCHBAY_FAULT         alloc, read or write; short: nothing fails, every read and write takes half of what it is given
//   PATCHBAY_FAULT_AT      n, from 1; 0: nothing fails, calls are only counted
//   PATCHBAY_FAULT_ON      1: all calls after the n-th fail too (a full disk, memory that is used up)
//   PATCHBAY_FAULT_REPORT  a file that gets "calls=N peak_heap_bytes=P" when the program ends
// Where an address sanitizer has malloc (PATCHBAY_FAULTS_NEW_ONLY), allocations are those of operator new.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace {

enum class Kind { none, alloc, read, write, half };

Kind kind_of_environment() {
  const char* name = std::getenv("PATCHBAY_FAULT");
  if (name == nullptr) return Kind::none;
  const std::pair<const char*, Kind> kinds[] = {{"alloc", Kind::alloc}, {"read", Kind::read}, {"write", Kind::write}, {"short", Kind::half}};
  for (const auto& [word, one] : kinds) if (std::strcmp(name, word) == 0) return one;
  return Kind::none;
}
long number_of_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

Kind kind = Kind::none;      // set when main() begins: what the loader does before is not the program's
long fault_at = 0;
bool stays = false;
std::atomic<long> calls{0};
std::atomic<std::int64_t> heap_bytes{0}, peak_heap_bytes{0};

/// Memory without which glibc ends the process by itself: the loader's (a library's thread-local storage), and that for what is done when a
/// thread ends. No program can prevent it.
bool needed_by_glibc(const void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0) return false;
  const auto in = [](const char* name, const char* part) { return name != nullptr && std::strstr(name, part) != nullptr; };
  return in(info.dli_fname, "ld-linux") || in(info.dli_sname, "__cxa_thread_atexit_impl");
}

/// Whether this call is to fail.
bool fails(Kind one, const void* caller) {
  if (one != kind) return false;
  const long call = ++calls;
  if (fault_at == 0 || call < fault_at || (call > fault_at && !stays)) return false;
  return one != Kind::alloc || !needed_by_glibc(caller);
}

#define PATCHBAY_FAILS(kind) fails(kind, __builtin_return_address(0))
// NOLINTNEXTLINE: what comes next in the order of loading, found once
#define PATCHBAY_NEXT(name) static const auto next = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

std::size_t given(std::size_t size) { return kind == Kind::half && size > 1 ? size / 2 : size; }

int no_space() {
  errno = ENOSPC;
  return -1;
}
int no_input() {
  errno = EIO;
  return -1;
}
Kind kind_of_open(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0 ? Kind::write : Kind::read; }
Kind kind_of_mode(const char* mode) { return std::strpbrk(mode, "wa+") != nullptr ? Kind::write : Kind::read; }

}  // namespace

extern "C" {

// main() --------------------------------------------------------------------------------------------------------------------

using Main = int (*)(int, char**, char**);
static Main real_main;
static int armed_main(int argc, char** argv, char** environment) {
  ::unsetenv("LD_PRELOAD");  // not for the programs that this one starts
  fault_at = number_of_environment("PATCHBAY_FAULT_AT");
  stays = number_of_environment("PATCHBAY_FAULT_ON") != 0;
  kind = kind_of_environment();
  const int code = real_main(argc, argv, environment);
  kind = Kind::none;
  if (const char* path = std::getenv("PATCHBAY_FAULT_REPORT")) {
    char text[100];
    const int size = std::snprintf(text, sizeof text, "calls=%ld peak_heap_bytes=%lld\n", calls.load(), static_cast<long long>(peak_heap_bytes));
    const auto file = ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0) ::syscall(SYS_write, file, text, size);
  }
  return code;
}
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*loader_fini)(), void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  static const auto next = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  real_main = main;
  return next(armed_main, argc, argv, init, fini, loader_fini, stack_end);
}

// Memory --------------------------------------------------------------------------------------------------------------------

#ifndef PATCHBAY_FAULTS_NEW_ONLY
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

static void* counted(void* memory) {
  if (memory == nullptr) return nullptr;
  const auto size = static_cast<std::int64_t>(::malloc_usable_size(memory));
  const std::int64_t now = heap_bytes.fetch_add(size) + size;
  for (std::int64_t peak = peak_heap_bytes; now > peak && !peak_heap_bytes.compare_exchange_weak(peak, now);) {
  }
  return memory;
}
static void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}
static void uncounted(void* memory) {
  if (memory != nullptr) heap_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
}

void* malloc(std::size_t size) { return PATCHBAY_FAILS(Kind::alloc) ? no_memory() : counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return PATCHBAY_FAILS(Kind::alloc) ? no_memory() : counted(__libc_calloc(count, size)); }
void* realloc(void* memory, std::size_t size) {
  if (PATCHBAY_FAILS(Kind::alloc)) return no_memory();
  uncounted(memory);
  return counted(__libc_realloc(memory, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return PATCHBAY_FAILS(Kind::alloc) ? no_memory() : counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (PATCHBAY_FAILS(Kind::alloc)) return ENOMEM;
  *memory = counted(__libc_memalign(alignment, size));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  uncounted(memory);
  __libc_free(memory);
}
#endif

// Files ---------------------------------------------------------------------------------------------------------------------

int open(const char* path, int flags, ...) {
  PATCHBAY_NEXT(open);
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const Kind one = kind_of_open(flags);
  if (PATCHBAY_FAILS(one)) return one == Kind::write ? no_space() : no_input();
  return next(path, flags, mode);
}
std::FILE* fopen(const char* path, const char* mode) {
  PATCHBAY_NEXT(fopen);
  const Kind one = kind_of_mode(mode);
  if (!PATCHBAY_FAILS(one)) return next(path, mode);
  errno = one == Kind::write ? ENOSPC : EIO;
  return nullptr;
}
std::FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }  // 64-bit systems know no other

ssize_t read(int file, void* bytes, std::size_t size) {
  PATCHBAY_NEXT(read);
  return PATCHBAY_FAILS(Kind::read) ? no_input() : next(file, bytes, given(size));
}
ssize_t pread(int file, void* bytes, std::size_t size, off_t offset) {
  PATCHBAY_NEXT(pread);
  return PATCHBAY_FAILS(Kind::read) ? no_input() : next(file, bytes, given(size), offset);
}
int fstat(int file, struct stat* status) noexcept {
  PATCHBAY_NEXT(fstat);
  return PATCHBAY_FAILS(Kind::read) ? no_input() : next(file, status);
}
int stat(const char* path, struct stat* status) noexcept {
  PATCHBAY_NEXT(stat);
  return PATCHBAY_FAILS(Kind::read) ? no_input() : next(path, status);
}
void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  PATCHBAY_NEXT(mmap);
  if ((flags & MAP_ANONYMOUS) != 0 || !PATCHBAY_FAILS(Kind::read)) return next(address, size, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

ssize_t write(int file, const void* bytes, std::size_t size) {
  PATCHBAY_NEXT(write);
  return file > STDERR_FILENO && PATCHBAY_FAILS(Kind::write) ? no_space() : next(file, bytes, given(size));
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  PATCHBAY_NEXT(writev);
  return file > STDERR_FILENO && PATCHBAY_FAILS(Kind::write) ? no_space() : next(file, parts, count);
}
/// Counted, not carried out: the tests end programs, not machines, and hundreds of flushes take minutes on a busy disk.
int fsync(int) { return PATCHBAY_FAILS(Kind::write) ? no_space() : 0; }
int ftruncate(int file, off_t size) noexcept {
  PATCHBAY_NEXT(ftruncate);
  return PATCHBAY_FAILS(Kind::write) ? no_space() : next(file, size);
}
int rename(const char* from, const char* to) noexcept {
  PATCHBAY_NEXT(rename);
  return PATCHBAY_FAILS(Kind::write) ? no_space() : next(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  PATCHBAY_NEXT(mkdir);
  return PATCHBAY_FAILS(Kind::write) ? no_space() : next(path, mode);
}

}  // extern "C"

#ifdef PATCHBAY_FAULTS_NEW_ONLY
static void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  if (fails(Kind::alloc, caller)) return nullptr;
  return alignment == 0 ? std::malloc(size == 0 ? 1 : size) : ::memalign(alignment, size);
}
static void* or_throw(void* memory) {
  if (memory != nullptr) return memory;
  if (const auto handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}
#define PATCHBAY_CALLER __builtin_return_address(0)
void* operator new(std::size_t size) { return or_throw(allocate(size, 0, PATCHBAY_CALLER)); }
void* operator new[](std::size_t size) { return or_throw(allocate(size, 0, PATCHBAY_CALLER)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0, PATCHBAY_CALLER); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0, PATCHBAY_CALLER); }
void* operator new(std::size_t size, std::align_val_t alignment) { return or_throw(allocate(size, std::size_t(alignment), PATCHBAY_CALLER)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return or_throw(allocate(size, std::size_t(alignment), PATCHBAY_CALLER)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
