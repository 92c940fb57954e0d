// Rows that lie on disk: what is read is what was written, nothing has a name, and every failure of the disk is an error that says what to do.
#include "quantize/spilled_rows.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <numeric>

#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

/// In a process of its own, since limits and environment are the process's: whether `call` refuses with both words.
bool refused_in_child(const std::function<void()>& prepare, const std::function<void()>& call, const std::string& problem, const std::string& remedy) {
  const auto child = ::fork();
  if (child == 0) {
    prepare();
    const std::string message = message_of(call);
    ::_exit(message.find(problem) != std::string::npos && message.find(remedy) != std::string::npos ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("spilled rows: any rows come back as they were written, and copies are whole") {
  constexpr std::int64_t kRows = 1000, kCols = 7;  // more than one piece of a copy
  SpilledRows rows(kRows, kCols), other(kRows, kCols);
  std::vector<float> values(kRows * kCols), read(values.size());
  std::iota(values.begin(), values.end(), 1.0f);
  for (std::int64_t first = 0; first < kRows; first += 8) rows.write(first, View<const float, 2>(values.data() + first * kCols, {8, kCols}));
  rows.read(0, {read.data(), {kRows, kCols}});
  CHECK(read == values);
  other.copy(rows);
  std::fill_n(values.begin() + 500 * kCols, 3 * kCols, -1.0f);
  rows.write(500, View<const float, 2>(values.data() + 500 * kCols, {3, kCols}));
  rows.read(0, {read.data(), {kRows, kCols}});
  CHECK(read == values);
  other.read(499, {read.data(), {5, kCols}});
  for (std::int64_t i = 0; i < 5 * kCols; ++i) REQUIRE(read[i] == static_cast<float>(499 * kCols + i + 1));
  CHECK_THAT(message_of([&] { rows.read(kRows - 1, {read.data(), {2, kCols}}); }), Contains("reading a temporary file"));  // behind the end
}

TEST_CASE("spilled rows: the file lies in TMPDIR without a name") {
  const TemporaryFolder folder;
  const auto child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", folder.path.c_str(), 1);
    const SpilledRows rows(10, 10);
    const bool nameless = std::filesystem::is_empty(folder.path);
    bool in_folder = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code code;
      in_folder = in_folder || std::filesystem::read_symlink(entry.path(), code).string().starts_with(folder.path + "/");
    }
    ::_exit(nameless && in_folder ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("spilled rows: a disk without room, before and while writing, and a folder that is not there are errors") {
  const auto at_most_4096_bytes = [] {  // fails in the way a full disk does
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  CHECK(refused_in_child(at_most_4096_bytes, [] { SpilledRows(1000, 1000); }, "taking 4.0 MB for a temporary file for the calibration samples failed: File too large", "make room, or name another folder in the environment variable TMPDIR"));
  SpilledRows rows(1000, 10);
  const std::vector<float> values(10000);
  CHECK(refused_in_child(at_most_4096_bytes, [&] { rows.write(0, View<const float, 2>(values.data(), {1000, 10})); }, "writing a temporary file", "TMPDIR"));
  CHECK(refused_in_child([] { ::setenv("TMPDIR", "/nowhere/at/all", 1); }, [] { SpilledRows(1, 1); }, "TMPDIR: there is no folder for temporary files", "name a folder"));
  CHECK(refused_in_child([] { ::setenv("TMPDIR", "/proc", 1); }, [] { SpilledRows(1, 1); }, "/proc: making a temporary file", "TMPDIR"));
}
