/// @file report_files.h
/// The reports that are files: CSV, and a page whose plots python/plot_report.py draws where it can.
#pragma once
#include <string>

#include "experiment/record_set.h"

namespace patchbay::app {

/// What a report may not write to: a file of an experiment's own, or one that no report has written; "": none is asked for.
/// @throws Error.
void check_targets(const std::string& csv, const std::string& html);

void write_csv(const RecordSet& set, const std::string& path);
/// Returns what to tell a user whose page has no plots, else "".
std::string write_html(const RecordSet& set, const std::string& path);

}  // namespace patchbay::app
