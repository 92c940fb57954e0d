#include "quantize/spilled_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::int64_t kValueBytes = sizeof(float);
constexpr const char* kRemedy = "make room, or name another folder in the environment variable TMPDIR";

std::string temporary_folder() {
  try {
    return std::filesystem::temp_directory_path().string();
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error("TMPDIR", "there is no folder for temporary files: " + error.code().message(), "", "name a folder that can be written to");
  }
}

Error failed(const std::string& folder, const std::string& action, int code) {
  return {escaped(folder, 300), action + " a temporary file for the calibration samples failed: " + std::strerror(code), "", kRemedy};
}

/// Where the file system can, a file that never had a name, so that not even a kill at this moment leaves one.
int open_without_name(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return file;
  std::string name = folder + "/patchbay_XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

SpilledRows::SpilledRows(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols), folder_(temporary_folder()), file_(open_without_name(folder_)) {
  if (file_ < 0) throw failed(folder_, "making", errno);
  const std::int64_t bytes = rows * cols * kValueBytes;
  int code = 0;
  do code = bytes > 0 ? ::posix_fallocate(file_, 0, bytes) : 0;
  while (code == EINTR);
  if (code == 0) return;
  ::close(file_);
  throw failed(folder_, fmt::format("taking {:.1f} MB for", static_cast<double>(bytes) / 1e6), code);
}

SpilledRows::~SpilledRows() { ::close(file_); }

/// Calls pread or pwrite until all bytes have passed.
template <class Move>
void SpilledRows::move_all(const char* action, std::int64_t bytes, const Move& move) const {
  for (std::int64_t done = 0; done < bytes;) {
    const auto moved = move(done, static_cast<std::size_t>(bytes - done));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) throw failed(folder_, action, moved < 0 ? errno : EIO);
    done += moved;
  }
}

void SpilledRows::read(std::int64_t first, View<float, 2> x) const {
  const std::int64_t at = first * cols_ * kValueBytes;
  char* const to = reinterpret_cast<char*>(x.data);
  move_all("reading", x.size() * kValueBytes, [&](std::int64_t done, std::size_t left) { return ::pread(file_, to + done, left, at + done); });
}

void SpilledRows::write(std::int64_t first, View<const float, 2> x) {
  const std::int64_t at = first * cols_ * kValueBytes;
  const char* const from = reinterpret_cast<const char*>(x.data);
  move_all("writing", x.size() * kValueBytes, [&](std::int64_t done, std::size_t left) { return ::pwrite(file_, from + done, left, at + done); });
}

void SpilledRows::copy(const SpilledRows& from) {
  constexpr std::int64_t kRows = 256;
  std::vector<float> room(static_cast<std::size_t>(kRows * cols_));
  for (std::int64_t first = 0; first < rows_; first += kRows) {
    const View<float, 2> rows(room.data(), {std::min(kRows, rows_ - first), cols_});
    from.read(first, rows);
    write(first, rows);
  }
}

}  // namespace patchbay
