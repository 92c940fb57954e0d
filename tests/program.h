// The program as a child process: without a shell, within limits of time and memory, its two streams apart.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace patchbay::test {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

struct ProgramResult {
  int code = -1;   ///< of a program that ended by itself
  int signal = 0;  ///< that ended it, else 0
  bool timed_out = false;
  std::string out, err;  ///< of a program that timed out err ends with the limit that it came to
};

/// Processor time is what a program takes; the clock is far wider, since a machine may have much else to do.
struct ProgramLimits {
  int seconds = 60;  ///< of processor time
  std::int64_t memory_bytes = std::int64_t{4} << 30;
  int clock_seconds = 120;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

/// `patchbay ARGUMENTS...`, in the current folder, with more variables in its environment. A finding of a sanitizer ends it with code 99,
/// which no command returns.
inline ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramLimits& limits = {}, const Environment& environment = {}) {
  std::FILE *out = std::tmpfile(), *err = std::tmpfile();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(out), STDOUT_FILENO);
    ::dup2(::fileno(err), STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
#ifdef __SANITIZE_ADDRESS__
    // Its shadow takes terabytes of address space: the resident part is limited instead, to twice as much, since red zones and the freed
    // blocks that it keeps aside come on top.
    const std::string options = "exitcode=99:verify_asan_link_order=0:hard_rss_limit_mb=" + std::to_string(2 * (limits.memory_bytes >> 20));
    ::setenv("ASAN_OPTIONS", options.c_str(), 1);
    ::setenv("LSAN_OPTIONS", "exitcode=99", 1);
#else
    const rlimit memory{static_cast<rlim_t>(limits.memory_bytes), static_cast<rlim_t>(limits.memory_bytes)};
    ::setrlimit(RLIMIT_AS, &memory);
#endif
    const rlim_t seconds = static_cast<rlim_t>(limits.seconds);
    const rlimit time{seconds, seconds + 1};
    ::setrlimit(RLIMIT_CPU, &time);
    std::vector<char*> words = {const_cast<char*>("patchbay")};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    ::execv(PATCHBAY_BINARY_DIR "/bin/patchbay", words.data());
    ::_exit(127);
  }
  ProgramResult result;
  int status = 0;
  const int clock_seconds = std::max(limits.seconds, limits.clock_seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(clock_seconds);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!result.timed_out && std::chrono::steady_clock::now() > end) {
      result.timed_out = true;
      ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  const bool by_clock = result.timed_out;
  result.timed_out = by_clock || result.signal == SIGXCPU;
  const auto take = [](std::FILE* file) {
    std::string text;
    std::rewind(file);
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
    std::fclose(file);
    return text;
  };
  result.out = take(out);
  result.err = take(err);
  if (result.timed_out) result.err += "ended at the limit of " + (by_clock ? std::to_string(clock_seconds) + " s by the clock" : std::to_string(limits.seconds) + " s of processor time");
  return result;
}

struct ShellResult {
  int code = -1;
  std::string out;
};
/// `patchbay ARGUMENTS` through the shell; its output, and by `streams` what it writes to stderr.
inline ShellResult patchbay_run(const std::string& arguments, const std::string& streams = "2>&1") {
  ShellResult result;
  std::FILE* pipe = ::popen((PATCHBAY_BINARY_DIR "/bin/patchbay " + arguments + " " + streams).c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

}  // namespace patchbay::test
