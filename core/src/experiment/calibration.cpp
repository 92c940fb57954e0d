#include "experiment/calibration.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "experiment/bootstrap.h"
#include "experiment/calibration_kernels.h"
#include "experiment/cpu_load.h"
#include "experiment/environment.h"
#include "experiment/text_table.h"
#include "patchbay/error.h"

namespace patchbay {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// body(thread) on all threads at once: seconds from the first start to the last end.
double seconds_of(int threads, const std::function<void(int)>& body) {
  std::barrier<> gate(threads);
  std::vector<double> begins(threads), ends(threads);
  const auto work = [&](int thread) {
    gate.arrive_and_wait();
    begins[thread] = now();
    body(thread);
    ends[thread] = now();
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  return *std::ranges::max_element(ends) - *std::ranges::min_element(begins);
}

/// As Linux tells it, which knows what the cores share: sysconf adds up the package's caches on some processors.
std::int64_t last_level_cache() {
  constexpr std::int64_t kUnknown = 32 << 20;
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::int64_t size = 0;
    char unit = 0;
    if (in >> size >> unit) largest = std::max(largest, unit == 'M' ? size << 20 : size << 10);
  }
  if (largest > 0) return largest;
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE})
    if (const std::int64_t bytes = ::sysconf(level); bytes > 0) return bytes;
  return kUnknown;
}

constexpr std::int64_t kHugePage = 2 << 20;
using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// Pages of 4 KiB would halve what is read here: the prefetchers stop at each page's end. Filled with ones, so that every page is there.
Memory huge_pages(std::int64_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(kHugePage, static_cast<std::size_t>(bytes))), &std::free);
  if (!memory) throw Error("calibrate", fmt::format("cannot allocate {} bytes", bytes), "", "end other programs");
  ::madvise(memory.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // a wish: without it the figures are lower
  std::fill_n(reinterpret_cast<double*>(memory.get()), bytes / static_cast<std::int64_t>(sizeof(double)), 1.0);
  return memory;
}

Spread spread_of(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax_element(values);
  return {median(values), *low, *high};
}

/// All measurements of one thread count.
class Bench {
 public:
  Bench(int threads, const CalibrationOptions& options, std::int64_t cache_bytes, std::byte* memory, std::int64_t memory_bytes)
      : threads_(threads), options_(options), memory_(memory), memory_bytes_(memory_bytes),
        cached_bytes_(std::min(cache_bytes / 4, memory_bytes)) {}

  ThreadLimits run() {
    constexpr Spread ThreadLimits::*kFields[] = {&ThreadLimits::memory_read_bytes_per_s, &ThreadLimits::memory_triad_bytes_per_s,
                                                 &ThreadLimits::cache_read_bytes_per_s, &ThreadLimits::fp32_flops_per_s,
                                                 &ThreadLimits::int8_ops_per_s};
    const auto fp32 = fp32_peak_loop(), int8 = int8_peak_loop();
    const std::function<double()> measures[] = {[&] { return read(memory_bytes_); }, [&] { return triads(); },
                                                [&] { return read(cached_bytes_); }, [&] { return peak(fp32); }, [&] { return peak(int8); }};
    ThreadLimits limits;
    limits.threads = threads_;
    std::vector<double> values[std::size(measures)];
    for (int repeat = -1; repeat < options_.repeats; ++repeat)  // the first warms up; in turns, so that drift meets all alike
      for (std::size_t i = 0; i < std::size(measures); ++i)
        if (const double value = measures[i](); repeat >= 0) values[i].push_back(value);
    for (std::size_t i = 0; i < std::size(measures); ++i) limits.*kFields[i] = spread_of(values[i]);
    return limits;
  }

 private:
  /// Work per second, of a body that does `work` per time it is run on all threads; run often enough to take options.seconds.
  double rate(double work, const std::function<void(int thread, std::int64_t times)>& body) const {
    std::int64_t times = 1;
    for (;;) {
      const double seconds = seconds_of(threads_, [&](int thread) { body(thread, times); });
      if (seconds >= options_.seconds) return work * static_cast<double>(times) / seconds;
      times = std::max(times + 1, static_cast<std::int64_t>(1.2 * static_cast<double>(times) * options_.seconds / std::max(seconds, 1e-6)));
    }
  }
  /// Thread `thread`'s share of n units of `step` bytes, in bytes.
  std::pair<std::int64_t, std::int64_t> share(std::int64_t bytes, std::int64_t step, int thread) const {
    const std::int64_t units = bytes / step;
    return {units * thread / threads_ * step, units * (thread + 1) / threads_ * step};
  }
  double read(std::int64_t bytes) {
    const auto loop = read_loop();
    return rate(static_cast<double>(bytes / kReadStep * kReadStep), [&, loop](int thread, std::int64_t times) {
      const auto [begin, end] = share(bytes, kReadStep, thread);
      for (std::int64_t i = 0; i < times; ++i) keep(static_cast<double>(loop(memory_ + begin, end - begin)));
    });
  }
  double triads() {
    const std::int64_t third = memory_bytes_ / 3 / kReadStep * kReadStep;
    auto* a = reinterpret_cast<double*>(memory_);
    const std::int64_t doubles = third / static_cast<std::int64_t>(sizeof(double));
    return rate(3.0 * static_cast<double>(third), [&](int thread, std::int64_t times) {
      const auto [begin, end] = share(doubles, 1, thread);
      for (std::int64_t i = 0; i < times; ++i) triad(a + begin, a + doubles + begin, a + 2 * doubles + begin, 3.0, end - begin);
    });
  }
  double peak(const PeakLoop& loop) {
    constexpr std::int64_t kRounds = 1000;
    return rate(loop.operations * kRounds * threads_, [&](int, std::int64_t times) { keep(loop.run(times * kRounds)); });
  }
  static void keep(double value) { __asm__ volatile("" : : "g"(value) : "memory"); }

  int threads_;
  const CalibrationOptions& options_;
  std::byte* memory_;
  std::int64_t memory_bytes_, cached_bytes_;
};

}  // namespace

int usable_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::vector<int> calibrated_threads(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads = threads < 8 ? threads + 1 : 2 * threads) counts.push_back(threads);
  counts.push_back(most);
  return counts;
}

const ThreadLimits* Calibration::at(int threads) const {
  const auto found = std::ranges::find(by_threads, threads, &ThreadLimits::threads);
  return found == by_threads.end() ? nullptr : &*found;
}

MachineLimits Calibration::limits(int threads) const {
  const auto* found = at(threads);
  if (!found) throw Error("calibration", fmt::format("no figures for {} threads", threads), "", "patchbay calibrate --threads N");
  return {found->memory_read_bytes_per_s.median, found->cache_read_bytes_per_s.median, static_cast<double>(cache_bytes),
          found->fp32_flops_per_s.median, found->int8_ops_per_s.median};
}

Calibration calibrate(const CalibrationOptions& options) {
  for (const int threads : options.threads)
    if (threads < 1 || threads > usable_cores())
      throw Error("calibrate: threads", std::to_string(threads), fmt::format("1 to {}, the cores that this process may use", usable_cores()));
  const auto where = environment();
  Calibration result;
  result.host = where.host;
  result.cpu = where.cpu;
  result.date = utc_now();
  result.fp32_path = fp32_peak_loop().name;
  result.int8_path = int8_peak_loop().name;
  result.repeats = options.repeats;
  result.cache_bytes = last_level_cache();
  constexpr std::int64_t kSmallest = 64 << 20, kLargest = 1 << 30;
  result.array_bytes = options.array_bytes > 0 ? options.array_bytes : std::clamp(4 * result.cache_bytes, kSmallest, kLargest);
  result.array_bytes -= result.array_bytes % kHugePage;
  const auto memory = huge_pages(result.array_bytes);
  const auto before = cpu_times();
  for (const int threads : options.threads) {
    if (options.progress) options.progress(counted(threads, "thread"));
    result.by_threads.push_back(Bench(threads, options, result.cache_bytes, memory.get(), result.array_bytes).run());
  }
  result.busy_share = busy_share(before, cpu_times());
  return result;
}

Calibrations::Calibrations(bool anew) {
  const auto path = calibration_path();
  if (!anew && !path.empty() && std::filesystem::exists(path)) stored_ = read_calibration(path);
}

const Calibration& Calibrations::of(int threads) {
  threads = used_threads(threads);
  if (stored_ && stored_->at(threads)) return *stored_;
  static std::mutex mutex;
  static std::map<int, Calibration> measured;
  const std::lock_guard lock(mutex);
  const auto found = measured.find(threads);
  if (found != measured.end()) return found->second;
  return measured.emplace(threads, calibrate({{threads}, 5, 0.005, 0, nullptr})).first->second;
}

int used_threads(int threads) { return std::clamp(threads, 1, usable_cores()); }

}  // namespace patchbay
