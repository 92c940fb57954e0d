/// @file report_html.h
/// The report as one HTML page that needs nothing else: for a paper's appendix, or years later.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/record_set.h"

namespace patchbay {

/// One plot: quality (lower is better) against a cost (x).
struct PlotPoint {
  std::string label;
  double x = 0, y = 0;
  std::optional<double> x_low, x_high, y_low, y_high;
  bool front = false;     ///< on the Pareto front
  bool baseline = false;
  int number = 0;         ///< on the front: counted from the least x, equal points share one; else 0
};
struct Plot {
  std::string name, title, x_label, y_label;
  bool larger_x_is_better = false;  ///< lower y always is
  std::vector<PlotPoint> points;
  std::string svg;        ///< "": the page has the front as a table alone
};

/// Quality against bytes and against speed, where the records have both and their qualities can be compared at all.
PATCHBAY_API std::vector<Plot> report_plots(const RecordSet& set);
/// Marks and numbers the points that no other one equals or beats in both coordinates and beats in one; intervals are not looked at.
PATCHBAY_API void mark_pareto_front(Plot& plot);
/// What python/plot_report.py reads.
PATCHBAY_API Json plots_json(const std::vector<Plot>& plots);

/// So begins every page.
inline constexpr const char* kPageBeginning = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"patchbay report\">\n";
/// `remark` stands where plots are missing: how to get them. All that comes from records is escaped; the SVG is taken as it is.
PATCHBAY_API std::string report_html(const RecordSet& set, const std::vector<Plot>& plots, const std::string& remark);

/// Text as HTML: & < > " ' as entities, other controls than line ends as spaces.
PATCHBAY_API std::string html(std::string_view text);

}  // namespace patchbay
