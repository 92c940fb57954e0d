/// @file report_files.h
/// The reports that are files: CSV, and a page whose plots python/plot_report.py draws where it can.
#pragma once
#include <string>

#include "experiment/record_set.h"

namespace patchbay::app {

void write_csv(const RecordSet& set, const std::string& path);
/// Returns what to tell a user whose page has no plots, else "".
std::string write_html(const RecordSet& set, const std::string& path);

}  // namespace patchbay::app
