/// @file report.h
/// report(records) -> table: built from records alone, so that it can be made again at any time.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

/// One row per run: where the runs differ, then each metric with its interval; a legend below. utf8: see TextTable.
PATCHBAY_API std::string report_table(std::span<const nlohmann::ordered_json> records, bool utf8);

/// A value and half the width of its interval, cut to the digits that the interval supports: "28.8 ±1.3".
PATCHBAY_API std::string plus_minus(double value, double half_width);

}  // namespace patchbay
