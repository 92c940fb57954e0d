#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/record_set.h"
#include "experiment/report.h"

namespace patchbay {
namespace {

/// Text that Markdown shows as it is, within a cell too. Underscores within words need nothing.
std::string literal(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '\n': out += ' '; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\\': case '|': case '*': case '`': out += '\\'; [[fallthrough]];
      default: out += letter;
    }
  }
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const auto& cell : cells) line += " " + literal(cell) + " |";
  return line + "\n";
}

/// "bits/\nweight" on one line.
std::string on_one_line(std::string title) {
  for (const char* before : {"/\n", ".\n"})
    if (const auto at = title.find(before); at != std::string::npos) title.erase(at + 1, 1);
  return title;
}

std::string table(ReportGrid grid) {
  for (auto& title : grid.header) title = on_one_line(title);
  auto text = row(grid.header) + "|";
  for (std::size_t c = 0; c < grid.header.size(); ++c) text += c < grid.labels ? " --- |" : " ---: |";
  text += "\n";
  for (const auto& cells : grid.rows) text += row(cells);
  return text + "\n";
}

/// Lines that Markdown leaves lines; what is indented goes on with the line before.
std::string lines(const std::string& legend) {
  std::string text;
  for (std::size_t begin = 0, end; begin < legend.size(); begin = end + 1) {
    end = std::min(legend.find('\n', begin), legend.size());
    auto line = legend.substr(begin, end - begin);
    line.erase(0, line.find_first_not_of(' '));
    const bool goes_on = legend.compare(std::min(end + 1, legend.size()), 2, "  ") == 0;  // the next line is indented
    text += literal(line) + (end + 1 < legend.size() && !goes_on ? "<br>\n" : "\n");
  }
  return text;
}

}  // namespace

std::string report_markdown(const RecordSet& set) {
  const auto records = merged_records(set);
  auto grid = report_grid(records);
  for (std::size_t i = 0; i < records.size(); ++i)
    if (records[i].value("baseline", false)) grid.rows[i][0] += " *";
  auto text = table(std::move(grid)) + lines(report_legend(records) + baseline_rule(set) + source_notes(set));
  if (auto predicted = roofline_grid(records); !predicted.rows.empty()) text += "\n" + table(std::move(predicted)) + lines(roofline_legend(records));
  return text;
}

}  // namespace patchbay
