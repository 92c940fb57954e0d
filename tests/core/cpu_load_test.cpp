#include "experiment/cpu_load.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace patchbay;

namespace {

/// A process that does nothing but work, until it is ended.
struct BusyChild {
  pid_t id = ::fork();
  BusyChild() {
    if (id == 0)
      for (volatile std::uint64_t work = 0;;) work = work + 1;
  }
  ~BusyChild() {
    ::kill(id, SIGKILL);
    ::waitpid(id, nullptr, 0);
  }
};

}  // namespace

TEST_CASE("/proc/stat is read as proc(5) says: neither idle nor waiting counts, steal does, and cores that are not ours do not") {
  const std::string text =
      "cpu  300 30 60 9000 90 6 3 12 50 0\ncpu0 100 10 20 3000 30 2 1 4 50 0\ncpu1 200 20 40 6000 60 4 2 8 0 0\nintr 7 0\ncpufreq 5\n";
  CpuTimes both, second;
  read_proc_stat(text, 100, [](int) { return true; }, both);
  CHECK(both.cores == 2);
  CHECK(both.all_s == Approx(4.11));  // (300 + 30 + 60 + 6 + 3 + 12) / 100; guests are part of user
  read_proc_stat(text, 100, [](int core) { return core == 1; }, second);
  CHECK(second.cores == 1);
  CHECK(second.all_s == Approx(2.74));
  CpuTimes nothing;
  read_proc_stat("", 100, [](int) { return true; }, nothing);
  CHECK(nothing.cores == 0);
}

TEST_CASE("the share is that of others, between nothing and all") {
  const CpuTimes before{100, 10, 1000, 2};
  CHECK(busy_share(before, {104, 13, 1002, 2}) == Approx(0.25));  // 4 s on 2 cores for 2 s, 3 of them ours
  CHECK(busy_share(before, {102, 13, 1002, 2}) == 0);             // ticks are coarse
  CHECK(busy_share(before, {109, 10, 1002, 2}) == 1);
  CHECK(std::isnan(busy_share(before, {100, 13, 1002, 2})));      // a made-up /proc/stat stands still
  CHECK(std::isnan(busy_share(before, {104, 13, 1002, 0})));
}

TEST_CASE("another process at work is seen") {
  const auto before = cpu_times();
  if (before.cores == 0) return;
  const BusyChild child;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
  while (std::chrono::steady_clock::now() < end) {}
  const auto share = busy_share(before, cpu_times());
  CHECK(share > 0.2 / before.cores);  // a core, or half of one that it shares with us
  CHECK(share <= 1);
}

TEST_CASE("what memory is left is known here, and less than a machine has") {
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() < std::int64_t{1} << 50);
}
