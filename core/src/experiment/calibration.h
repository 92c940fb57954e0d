/// @file calibration.h
/// What this machine can move and compute at most, measured: the limits that predictions are made from.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/cost_model.h"

namespace patchbay {

using Json = nlohmann::ordered_json;

/// The median of the repeats, and the lowest and highest of them.
struct Spread {
  double median = 0, low = 0, high = 0;
};
struct ThreadLimits {
  int threads = 1;
  Spread memory_read_bytes_per_s, memory_triad_bytes_per_s, cache_read_bytes_per_s, fp32_flops_per_s, int8_ops_per_s;
};
struct PATCHBAY_API Calibration {
  std::string host, cpu, date;
  std::string fp32_path, int8_path;            ///< which instructions the peaks are of
  double busy_share = 0;                       ///< of the cores' time, taken by others meanwhile; NaN: unknown
  std::int64_t cache_bytes = 0, array_bytes = 0;
  int repeats = 0;
  std::vector<ThreadLimits> by_threads;
  /// Null when that count was not measured.
  const ThreadLimits* at(int threads) const;
  /// The medians. @throws Error when that count was not measured.
  MachineLimits limits(int threads) const;
};

struct CalibrationOptions {
  std::vector<int> threads = {1};
  int repeats = 15;
  double seconds = 0.04;                       ///< each measurement of each repeat takes at least that
  std::int64_t array_bytes = 0;                ///< 2 MiB or more; 0: four times the last-level cache, 64 MiB to 1 GiB
  std::function<void(const std::string& what)> progress = nullptr;
};
/// About four seconds per thread count. @throws Error for a thread count below 1 or past the cores.
PATCHBAY_API Calibration calibrate(const CalibrationOptions& options);
/// 1 to 8, powers of two, and `most` itself.
PATCHBAY_API std::vector<int> calibrated_threads(int most);
/// How many threads this process may run at once.
PATCHBAY_API int usable_cores();

PATCHBAY_API Json calibration_json(const Calibration& calibration);
/// @throws Error naming the key, for a file that is no calibration or holds impossible figures.
PATCHBAY_API Calibration read_calibration(const std::string& path);
/// In the user's cache folder, by host and CPU; "" when there is no such folder.
PATCHBAY_API std::string calibration_path();

/// Limits for predictions: the file's, where it has that thread count; else a short calibration, under a second or two, made once per
/// process and not kept.
class PATCHBAY_API Calibrations {
 public:
  /// Reads the file, unless `anew`. @throws Error when it is no calibration.
  explicit Calibrations(bool anew = false);
  /// More threads than cores count as the cores. The result has that one: see used_threads.
  const Calibration& of(int threads);

 private:
  std::optional<Calibration> stored_;
};
PATCHBAY_API int used_threads(int threads);
/// What a record's environment says of it: the figures of one thread count, with date and spread.
PATCHBAY_API Json calibration_summary(const Calibration& calibration, int threads);

}  // namespace patchbay
