/// @file files.h
/// Writing so that a crash, a kill or a full disk leaves either the old or the new, never a half.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

/// A file that is written piece by piece and gets its name when it is whole. @throws Error naming the path; the old file is then untouched.
class PATCHBAY_API AtomicFile {
 public:
  /// remedy: what to do where the disk is full.
  explicit AtomicFile(std::string path, std::string remedy = "make room and try again");
  /// Without commit() nothing is left.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::string_view bytes);
  std::uint64_t bytes_written() const { return bytes_; }
  /// Flushes to the disk and renames.
  void commit();

 private:
  std::string path_, beside_, remedy_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
};

/// Writes beside `path`, flushes to the disk and renames. @throws Error naming the path; the old file is then untouched.
PATCHBAY_API void write_file_atomically(const std::string& path, std::string_view bytes);
/// Adds one line with a single write and flushes it to the disk. @throws Error; the file is then as it was.
PATCHBAY_API void append_line(const std::string& path, std::string_view line);
/// A folder, a pipe or a device where a file is to be read is an Error; that a file is missing shows when it is opened.
PATCHBAY_API void refuse_special_file(const std::string& path);
/// Reads a whole regular file. @throws Error.
PATCHBAY_API std::string read_whole_file(const std::string& path);
/// The lines of a file that end in a line end; what a cut-off write left after them is left out. @throws Error.
PATCHBAY_API std::vector<std::string> whole_lines(const std::string& path);
/// Takes that rest away, so that the next line does not join it.
PATCHBAY_API void cut_torn_line(const std::string& path);

/// A lock on a file that ends with the object or with the process, however that dies.
class PATCHBAY_API FileLock {
 public:
  /// @throws Error when another process holds it.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace patchbay
