/// @file sensitivity_scan.h
/// Measures how much a model minds each candidate format in each of its parts, and turns the choice into rules.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "quantize/block_walk.h"

namespace patchbay {

class WeightPlan;

/// A run whose formats are all named: `weights.bits_by_sensitivity` has become rules behind those that were there.
struct ResolvedRun {
  RunConfig config;
  CalibrationSummary calibration;                          ///< of the scan; samples 0: there was none
  std::vector<std::pair<std::string, std::string>> notes;  ///< tensor and line: its losses, and what it got
};

/// Labels of the matrices whose format the scan chooses: in the blocks, and named by no rule. Empty where nothing is chosen by sensitivity.
std::set<std::string> left_to_scan(const WeightPlan& plan, const RunConfig& config);
/// What is known of their formats beforehand: "int_grouped/b2/g64 or int_grouped/b4/g64".
std::string candidate_labels(const RunConfig& config);
/// For people who look at sizes before the scan; "" where nothing is chosen by sensitivity.
PATCHBAY_API std::string scan_note(const RunConfig& config);
/// @throws Error for candidates that cannot hold a matrix, naming it, and for a budget that even the smallest of them exceed.
PATCHBAY_API void check_candidates(const ModelFile& file, const RunConfig& config);
/// The run as it is where nothing is chosen by sensitivity. With options.folder losses are kept there and found again.
PATCHBAY_API ResolvedRun with_bits_by_sensitivity(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const QuantizeOptions& options);

}  // namespace patchbay
