#include "experiment/text_table.h"

#include <algorithm>

namespace patchbay {
namespace {

/// Header cells of several lines, the last line lowest.
std::vector<std::vector<std::string>> header_lines(const std::vector<std::string>& header) {
  const auto lines_of = [](const std::string& cell) { return std::count(cell.begin(), cell.end(), '\n') + 1; };
  std::ptrdiff_t height = 1;
  for (const auto& cell : header) height = std::max(height, lines_of(cell));
  std::vector<std::vector<std::string>> lines(height, std::vector<std::string>(header.size()));
  for (std::size_t c = 0; c < header.size(); ++c) {
    auto line = height - lines_of(header[c]);
    for (const char letter : header[c]) {
      if (letter == '\n') ++line;
      else lines[line][c] += letter;
    }
  }
  return lines;
}

}  // namespace

std::string counted(std::int64_t n, std::string_view noun) { return counted(std::to_string(n), noun); }
std::string counted(const std::string& n, std::string_view noun) { return n + " " + std::string(noun) + (n == "1" ? "" : "s"); }

std::string ascii(std::string text) {
  for (std::size_t at; (at = text.find("±")) != std::string::npos;) text.replace(at, std::string("±").size(), "+-");
  return text;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string TextTable::text(bool utf8) const {
  auto lines = header_lines(header);
  const auto header_height = lines.size();
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths(header.size(), 0);
  for (auto& cells : lines)
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!utf8) cells[c] = ascii(cells[c]);
      widths[c] = std::max(widths[c], width_of(cells[c]));
    }
  std::vector<std::string> rules(header.size());
  for (std::size_t c = 0; c < rules.size(); ++c)
    for (std::size_t i = 0; i < widths[c]; ++i) rules[c] += utf8 ? "─" : "-";
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(header_height), rules);

  std::string result;
  for (const auto& cells : lines) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width_of(cells[c]), ' ');
      line += (c ? "  " : "") + (c < right.size() && right[c] ? space + cells[c] : cells[c] + space);
    }
    result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return result;
}

TextTable TextTable::part(const std::vector<std::size_t>& chosen) const {
  TextTable part;
  part.rows.resize(rows.size());
  for (const auto c : chosen) {
    part.header.push_back(header[c]);
    part.right.push_back(c < right.size() && right[c]);
    for (std::size_t r = 0; r < rows.size(); ++r) part.rows[r].push_back(rows[r][c]);
  }
  return part;
}

std::string TextTable::text(bool utf8, std::size_t columns, std::size_t repeated) const {
  const auto width = [&](const std::vector<std::size_t>& chosen) {
    const auto lines = part(chosen).text(utf8);
    std::size_t widest = 0;
    for (std::size_t begin = 0, end; begin < lines.size(); begin = end + 1) {
      end = std::min(lines.find('\n', begin), lines.size());
      widest = std::max(widest, width_of(lines.substr(begin, end - begin)));
    }
    return widest;
  };
  std::vector<std::size_t> labels, chosen;
  for (std::size_t c = 0; c < std::min(repeated, header.size()); ++c) labels.push_back(c);
  chosen = labels;
  std::string result;
  for (std::size_t c = labels.size(); c < header.size(); ++c) {
    chosen.push_back(c);
    if (columns == 0 || chosen.size() == labels.size() + 1 || width(chosen) <= columns) continue;
    chosen.pop_back();
    result += part(chosen).text(utf8) + "\n";
    chosen = labels;
    chosen.push_back(c);
  }
  return result + part(chosen).text(utf8);
}

}  // namespace patchbay
