// What the fuzz targets share. A target is a function LLVMFuzzerTestOneInput: libFuzzer's main() drives it in the preset `fuzz`, replay.cpp
// in every other build.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "patchbay/error.h"

namespace patchbay::fuzz {

/// Bytes as a file with a path, without a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : number_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto written = ::write(number_, rest.data(), rest.size());
      if (written <= 0) std::abort();
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(number_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

/// A file on the disk, for readers that go by a name's ending. Goes away with the process.
class NamedFile {
 public:
  explicit NamedFile(const std::string& name) {
    std::string folder = (std::filesystem::temp_directory_path() / "patchbay_fuzz_XXXXXX").string();
    if (!::mkdtemp(folder.data())) std::abort();
    folder_ = folder;
    path_ = folder_ + "/" + name;
  }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;
  ~NamedFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

[[noreturn]] inline void fail(const char* what, const std::string& detail = {}) {
  std::fprintf(stderr, "FUZZ FINDING: %s %s\n", what, detail.c_str());
  std::abort();
}

/// Whatever is wrong with the input is an Error of one line; any other exception ends the process, which is a finding.
template <class Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.empty() || message.find('\n') != std::string_view::npos) fail("a message that is not one line:", std::string(message));
  }
}

}  // namespace patchbay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
