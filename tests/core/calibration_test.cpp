// Calibration: figures that can be, kept and read back whole, and taken from where they should be.
#include "experiment/calibration.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiment/calibration_kernels.h"
#include "files.h"
#include "support.h"
#include "synthetic_records.h"

using namespace patchbay;
using Catch::Contains;

namespace {

/// Small and quick: the figures mean little, but what holds of all figures holds.
Calibration quick() { return calibrate({{1}, 3, 0.001, 8 << 20, nullptr}); }

struct CacheFolder : test::TemporaryFolder {
  std::string before;
  CacheFolder() : before(std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "") { ::setenv("XDG_CACHE_HOME", path.c_str(), 1); }
  ~CacheFolder() { before.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before.c_str(), 1); }
  void write(const Json& json) const {
    std::filesystem::create_directories(std::filesystem::path(calibration_path()).parent_path());
    write_file_atomically(calibration_path(), json.dump());
  }
};

}  // namespace

TEST_CASE("every figure is positive, with its spread around it, and possible") {
  const auto calibration = quick();
  REQUIRE(calibration.by_threads.size() == 1);
  const auto& one = calibration.by_threads[0];
  struct { Spread spread; double most; } figures[] = {{one.memory_read_bytes_per_s, 1e12}, {one.memory_triad_bytes_per_s, 1e12},
                                                      {one.cache_read_bytes_per_s, 4e12}, {one.fp32_flops_per_s, 1e13}, {one.int8_ops_per_s, 1e14}};
  for (const auto& [spread, most] : figures) {
    CHECK(spread.low > 1e6);
    CHECK(spread.low <= spread.median);
    CHECK(spread.median <= spread.high);
    CHECK(spread.high < most);
  }
  CHECK(calibration.repeats == 3);
  CHECK(calibration.array_bytes == 8 << 20);
  CHECK(calibration.cache_bytes > 0);
  CHECK(calibration.date.size() == std::string("2026-01-31T12:00:00Z").size());
  CHECK(calibration.at(2) == nullptr);
  CHECK_THAT(test::message_of([&] { calibration.limits(2); }), Contains("2 threads"));
}

TEST_CASE("the loops do the work that they are timed for") {
  // The sum of all words of a buffer in which every word differs: a word left out or read twice shows.
  alignas(64) std::uint64_t words[4 * kReadStep / 8];
  std::uint64_t sum = 0, at = 1;
  for (auto& word : words) sum += word = at = at * 6364136223846793005u + 1;
  CHECK(read_loop()(reinterpret_cast<const std::byte*>(words), sizeof words) == sum);
  double a[5] = {}, b[5] = {1, 2, 3, 4, 5}, c[5] = {10, 20, 30, 40, 50};
  triad(a, b, c, 3, 5);
  CHECK(a[0] == 31);
  CHECK(a[4] == 155);
  CHECK(fp32_peak_loop().run(1000) != fp32_peak_loop().run(1001));
  CHECK(int8_peak_loop().operations >= 128);
}

TEST_CASE("threads that there are not are refused") {
  CHECK_THAT(test::message_of([] { calibrate({{usable_cores() + 1}, 1, 0.001, 8 << 20, nullptr}); }), Contains("calibrate: threads"));
  CHECK_THAT(test::message_of([] { calibrate({{0}, 1, 0.001, 8 << 20, nullptr}); }), Contains("calibrate: threads"));
  CHECK(calibrated_threads(1) == std::vector<int>{1});
  CHECK(calibrated_threads(3) == std::vector<int>{1, 2, 3});
  CHECK(calibrated_threads(20) == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16, 20});
}

TEST_CASE("a calibration is kept and read back whole; what is none is refused by name") {
  CacheFolder cache;
  const auto json = calibration_json(quick());
  cache.write(json);
  CHECK(calibration_json(read_calibration(calibration_path())) == json);
  const auto refused = [&](const char* key, const Json& value, const std::string& says) {
    auto bad = json;
    bad["by_threads"][0][key] = value;
    cache.write(bad);
    CHECK_THAT(test::message_of([] { Calibrations(); }), Contains("by_threads[0]") && Contains(says) && Contains("patchbay calibrate"));
  };
  refused("fp32_flops_per_s", {{"median", -1}, {"low", -1}, {"high", -1}}, "fp32_flops_per_s");
  refused("memory_read_bytes_per_s", {{"median", 2.0}, {"low", 3.0}, {"high", 4.0}}, "memory_read_bytes_per_s");
  refused("int8_ops_per_s", "fast", "int8_ops_per_s");
  refused("threads", 0, "threads");
  for (const char* text : {"", "{}", "{\"schema\": 1, \"host\"", "{\"schema\": 1, \"host\": 3}", "[1]"}) {
    write_file_atomically(calibration_path(), text);
    CHECK_THAT(test::message_of([] { Calibrations(); }), Contains("calibration"));
  }
}

TEST_CASE("predictions take what was kept, or else measure once") {
  CacheFolder cache;
  auto kept = quick();
  kept.date = "2026-01-31T12:00:00Z";
  cache.write(calibration_json(kept));
  CHECK(Calibrations().of(1).date == kept.date);
  CHECK(calibration_summary(Calibrations().of(1), 1)["date"] == kept.date);
  Calibrations anew(true);
  const auto measured = anew.of(1);
  CHECK(measured.date != kept.date);
  CHECK(Calibrations(true).of(1).by_threads[0].fp32_flops_per_s.median == measured.by_threads[0].fp32_flops_per_s.median);
  CHECK(anew.of(100000).at(usable_cores()) != nullptr);  // more threads than cores do not move more
  kept.by_threads[0].threads = 4096;
  cache.write(calibration_json(kept));
  CHECK(Calibrations().of(1).at(1) != nullptr);  // not in the file: measured
}
