#include "files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "path_checks.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// A path as messages show it: whole, unless it is of a length that nobody reads.
std::string shown(const std::string& path) { return escaped(path, 300); }

/// A file descriptor that closes itself.
struct File {
  int number = -1;
  ~File() { if (number >= 0) ::close(number); }
};

const std::string kGoOn = "make room, then go on with --resume";

Error failed(const std::string& path, const std::string& action, const std::string& remedy = kGoOn) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return {shown(path), action + " failed: " + std::strerror(code), {}, full ? remedy : ""};
}

void write_all(int file, std::string_view bytes, const std::string& path, const std::string& remedy = kGoOn) {
  while (!bytes.empty()) {
    const auto written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed(path, "writing", remedy);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A new or renamed entry of a folder is on the disk only when the folder itself is.
void flush_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const File file{::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (file.number >= 0) ::fsync(file.number);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string remedy)  // of a link its target is replaced, and not the link.
    : path_(output_target(path)), beside_(path_ + ".part" + std::to_string(::getpid())), remedy_(std::move(remedy)) {
  file_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) throw failed(path_, "writing", remedy_);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(beside_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  write_all(file_, bytes, path_, remedy_);
  bytes_ += bytes.size();
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) throw failed(path_, "flushing", remedy_);
  if (::rename(beside_.c_str(), path_.c_str()) != 0) throw failed(path_, "renaming", remedy_);
  ::close(std::exchange(file_, -1));
  flush_folder_of(path_);
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path, kGoOn);
  file.write(bytes);
  file.commit();
}

void append_line(const std::string& path, std::string_view line) {
  const File file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  struct stat before{};
  if (file.number < 0 || ::fstat(file.number, &before) != 0) throw failed(path, "opening");
  try {
    write_all(file.number, std::string(line) + "\n", path);
    if (::fsync(file.number) != 0) throw failed(path, "flushing");
  } catch (...) {
    // If this fails too, the torn line is cut off at the next opening.
    [[maybe_unused]] const int ignored = ::ftruncate(file.number, before.st_size);
    throw;
  }
  if (before.st_size == 0) flush_folder_of(path);
}

void refuse_special_file(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (std::filesystem::is_directory(status)) throw Error(shown(path), "is a folder where a file is expected");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(shown(path), "is a pipe or a device, which may never end", "a regular file");
}

std::string read_whole_file(const std::string& path) {
  refuse_special_file(path);
  const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status{};
  if (file.number < 0 || ::fstat(file.number, &status) != 0) throw Error(shown(path), std::string("cannot be read: ") + std::strerror(errno));
  std::string bytes(static_cast<std::size_t>(status.st_size) + 1, '\0');  // one more: the end shows without another turn
  std::size_t filled = 0;
  for (;;) {
    const auto taken = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) throw Error(shown(path), std::string("reading failed: ") + std::strerror(errno));
    if (taken == 0) break;
    filled += static_cast<std::size_t>(taken);
    if (filled == bytes.size()) bytes.resize(2 * filled);  // it grows, or does not say its size (/proc)
  }
  bytes.resize(filled);
  return bytes;
}

std::vector<std::string> whole_lines(const std::string& path) {
  const auto bytes = read_whole_file(path);
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1) lines.push_back(bytes.substr(begin, end - begin));
  return lines;
}

void cut_torn_line(const std::string& path) {
  const auto bytes = read_whole_file(path);
  const auto end = bytes.rfind('\n');
  const auto whole = end == std::string::npos ? 0 : end + 1;
  if (whole < bytes.size()) std::filesystem::resize_file(path, whole);
}

FileLock::FileLock(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (file_ < 0) throw failed(path, "opening");
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const bool taken = errno == EWOULDBLOCK;
  const auto error = failed(path, "locking");
  ::close(file_);
  if (!taken) throw error;
  throw Error(std::filesystem::path(path).parent_path().string(), "another patchbay is writing into this folder", {},
              "wait for it to end, or give another --out");
}

FileLock::~FileLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace patchbay
