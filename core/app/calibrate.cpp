// patchbay calibrate: the machine's bandwidth and peak, measured and kept for predictions.
#include "experiment/calibration.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "experiment/cpu_load.h"
#include "experiment/text_table.h"
#include "output_file.h"
#include "path_checks.h"

namespace patchbay::app {
namespace {

std::string in_billions(const Spread& spread) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", spread.median / 1e9, spread.low / 1e9, spread.high / 1e9);
}

void print_table(const Calibration& calibration, const std::string& path) {
  TextTable table;
  table.header = {"threads", "memory read\nGB/s", "memory triad\nGB/s", "cache read\nGB/s", "fp32\nGFLOP/s", "int8\nGOP/s"};
  table.right = std::vector<bool>(table.header.size(), true);
  for (const auto& limits : calibration.by_threads)
    table.rows.push_back({std::to_string(limits.threads), in_billions(limits.memory_read_bytes_per_s), in_billions(limits.memory_triad_bytes_per_s),
                          in_billions(limits.cache_read_bytes_per_s), in_billions(limits.fp32_flops_per_s), in_billions(limits.int8_ops_per_s)});
  std::fputs(table.text(unicode_terminal()).c_str(), stdout);
  fmt::print("\n{}, {}. Medians of {} repeats (lowest to highest); last-level cache {} MiB, arrays of {} MiB.\nfp32: {}; int8: {}.\n", calibration.host,
             calibration.cpu, calibration.repeats, calibration.cache_bytes >> 20, calibration.array_bytes >> 20, calibration.fp32_path,
             calibration.int8_path);
  if (calibration.busy_share > kBusyFrom)
    fmt::print("Others took {:.0f}% of the cores' time meanwhile: measure again when the machine is quiet.\n", 100 * calibration.busy_share);
  fmt::print("written to {}\n", path);
}

}  // namespace

int calibrate(const CalibrateOptions& options) {
  const auto path = options.out.empty() ? calibration_path() : options.out;
  if (path.empty()) throw Error("calibrate", "neither XDG_CACHE_HOME nor HOME is set: there is no cache folder", "", "say where: --out FILE");
  if (!options.out.empty()) output_target(path);  // refuses before the measuring
  refuse_other_file(path, "{\n  \"schema\"", "a calibration of patchbay");
  CalibrationOptions wanted;
  wanted.threads = calibrated_threads(options.threads > 0 ? options.threads : usable_cores());
  if (!options.json && ::isatty(STDERR_FILENO) == 1) wanted.progress = [](const std::string& what) { fmt::print(stderr, "measuring {}\n", what); };
  const auto calibration = patchbay::calibrate(wanted);
  const auto json = calibration_json(calibration);
  if (const auto folder = std::filesystem::path(path).parent_path(); options.out.empty()) std::filesystem::create_directories(folder);
  write_output_file(path, json.dump(2) + "\n");
  if (options.json) {
    fmt::print("{}\n", json.dump());
  } else {
    print_table(calibration, path);
  }
  return 0;
}

}  // namespace patchbay::app
