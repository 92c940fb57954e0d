#include "experiment/environment.h"

#include <malloc.h>
#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

#include "patchbay/build_id.h"
#include "patchbay/commit.h"  // generated at each build

namespace patchbay {
namespace {

/// The value of the first line "key<spaces>: value" of a /proc file; "" when there is none.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

}  // namespace

Environment environment() {
  utsname system{};
  ::uname(&system);
  return {system.nodename, std::string(system.sysname) + " " + system.release + " " + system.machine,
          proc_value("/proc/cpuinfo", "model name"), static_cast<int>(std::thread::hardware_concurrency()),
          PATCHBAY_BUILD_ID, PATCHBAY_COMMIT, PATCHBAY_VERSION, PATCHBAY_SOURCES};
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bool reset_peak_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;  // proc(5): resets the peak resident set size
  return out.good();
}

std::int64_t peak_memory_bytes() {
  const auto kib = proc_value("/proc/self/status", "VmHWM");
  return kib.empty() ? 0 : std::stoll(kib) * 1024;
}

}  // namespace patchbay
