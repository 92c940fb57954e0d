/// @file sensitivity_scan.h
/// Measures how much a model minds each candidate format in each of its parts, and turns the choice into rules.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quantize/block_walk.h"

namespace patchbay {

/// A run whose formats are all named: `weights.bits_by_sensitivity` has become rules behind those that were there.
struct ResolvedRun {
  RunConfig config;
  CalibrationSummary calibration;                          ///< of the scan; samples 0: there was none
  std::vector<std::pair<std::string, std::string>> notes;  ///< tensor and line: its losses, and what it got
};

/// @throws Error for candidates that cannot hold a matrix, naming it.
PATCHBAY_API void check_candidates(const ModelFile& file, const RunConfig& config);
/// The run as it is where nothing is chosen by sensitivity. With options.folder losses are kept there and found again.
PATCHBAY_API ResolvedRun with_bits_by_sensitivity(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const QuantizeOptions& options);

}  // namespace patchbay
