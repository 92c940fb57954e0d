#include "mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "model_file.h"

namespace patchbay {
namespace {

// A page of a mapping that the file no longer has cannot be read: the system sends SIGBUS. Checking the size again before each use would
// leave a window, and reading files whole would double the memory of large ones. So the signal itself is made into a message. The handler
// may do little: it looks the address up in a table that needs no lock, writes, and ends the process.

struct Slot {
  std::atomic<std::uintptr_t> begin{0}, end{0};  ///< end 0: free
  std::array<char, 256> path{};
};
std::array<Slot, 64> slots;  // more files at once are mapped too, but not known by name

void remember(const void* data, std::size_t size, const std::string& path) {
  for (Slot& slot : slots) {
    std::uintptr_t none = 0;
    if (!slot.begin.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(data))) continue;
    std::strncpy(slot.path.data(), path.c_str(), slot.path.size() - 1);
    slot.end = reinterpret_cast<std::uintptr_t>(data) + size;
    return;
  }
}

void forget(const void* data) {
  for (Slot& slot : slots) {
    if (slot.begin != reinterpret_cast<std::uintptr_t>(data)) continue;
    slot.end = 0;
    slot.begin = 0;
    return;
  }
}

void say(const char* text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Slot& slot : slots) {
    if (address < slot.begin || address >= slot.end) continue;
    say("patchbay: ");
    say(slot.path.data());
    say(": was shortened by another program while it was in use; fetch or copy the model again\n");
    ::_exit(1);
  }
  std::signal(signal, SIG_DFL);  // not ours: what follows is what would have been
}

}  // namespace

void report_shortened_models() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

Mapping::Mapping(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw Error(path, fmt::format("cannot open: {}", std::strerror(errno)));
  try {
    map(file, path);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  forget(data_);
  ::munmap(data_, size_);
}

void Mapping::release(const std::byte* first) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t start = (first - bytes().data() + page - 1) / page * page;
  if (start < size_) ::madvise(static_cast<std::byte*>(data_) + start, size_ - start, MADV_DONTNEED);
}

void Mapping::map(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw Error(path, fmt::format("cannot read: {}", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw Error(path, "is a directory", "a model file");
  if (!S_ISREG(status.st_mode)) throw Error(path, "is not a regular file", "a model file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) throw Error(path, fmt::format("cannot map {} bytes: {}", size_, std::strerror(errno)));
  data_ = data;
  remember(data_, size_, path);
}

}  // namespace patchbay
