#include "experiment/cpu_load.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

namespace patchbay {
namespace {

/// "" where it cannot be read.
std::string text_of(const char* path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A file that holds one number; -1 without one ("max", or no such file).
std::int64_t number_in(const char* path) {
  std::ifstream in(path);
  std::int64_t number = -1;
  return in >> number ? number : -1;
}

}  // namespace

void read_proc_stat(const std::string& proc_stat, double ticks_per_s, FunctionRef<bool(int)> counts, CpuTimes& times) {
  std::istringstream in(proc_stat);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] < '0' || line[3] > '9') continue;  // the first line sums the others
    std::istringstream fields(line.substr(3));
    int core = 0;
    double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;  // guests are part of user
    fields >> core >> user >> nice >> system >> idle >> io_wait >> irq >> soft_irq >> steal;
    if (!fields || !counts(core)) continue;
    times.all_s += (user + nice + system + irq + soft_irq + steal) / ticks_per_s;
    ++times.cores;
  }
}

CpuTimes cpu_times() {
  CpuTimes times;
  cpu_set_t mine;
  const bool known = ::sched_getaffinity(0, sizeof mine, &mine) == 0;
  const auto counts = [&](int core) { return !known || (core < CPU_SETSIZE && CPU_ISSET(core, &mine)); };
  read_proc_stat(text_of("/proc/stat"), static_cast<double>(::sysconf(_SC_CLK_TCK)), counts, times);
  times.own_s = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  times.clock_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return times;
}

double busy_share(const CpuTimes& before, const CpuTimes& after) {
  const double all = after.all_s - before.all_s, own = after.own_s - before.own_s, clock = after.clock_s - before.clock_s;
  // A /proc/stat that stands still while this process works is made up, as in some containers.
  const bool told = after.cores > 0 && clock > 0 && (all > 0 || own < 0.1);
  return told ? std::clamp((all - own) / (clock * after.cores), 0.0, 1.0) : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t available_memory_bytes() {
  std::istringstream in(text_of("/proc/meminfo"));
  std::int64_t available = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("MemAvailable:")) available = std::stoll(line.substr(13)) * 1024;
  const auto limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  return limit >= 0 && used >= 0 ? std::min(available, std::max<std::int64_t>(0, limit - used)) : available;
}

}  // namespace patchbay
