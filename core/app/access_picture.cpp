#include "access_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "experiment/report_html.h"
#include "experiment/text_table.h"
#include "gpu/requests.h"

namespace patchbay::app {
namespace {

constexpr int kLeft = 20, kLaneWidth = 26, kLaneTop = 64, kTargetTop = 190, kHeight = 20;
constexpr int kWidth = kLeft * 2 + 32 * kLaneWidth;

std::string lane_colour(unsigned lane) { return fmt::format("hsl({}, 65%, 45%)", lane * 360 / 32); }
int lane_middle(unsigned lane) { return kLeft + static_cast<int>(lane) * kLaneWidth + kLaneWidth / 2; }
std::string box(double x, double y, double width, double height, const std::string& fill, const std::string& title) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"#777\" stroke-width=\"0.5\"><title>{}</title></rect>\n", x, y,
                     width, height, fill, title);
}
std::string line(double x1, double y1, double x2, double y2, const std::string& colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"0.8\" opacity=\"0.7\"/>\n", x1, y1, x2, y2, colour);
}
std::string words(double x, double y, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, html(text));
}
bool has(const gpu::AccessPattern& pattern, unsigned lane) { return pattern.lanes >> lane & 1; }

struct Drawing { std::string body; int height = 0; };

/// The sectors side by side, ascending; within each, the bytes that are asked for.
Drawing sectors(const gpu::AccessPattern& pattern) {
  std::map<std::int64_t, int> places;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (std::int64_t b = 0; has(pattern, lane) && b < pattern.bytes[lane]; ++b) places.emplace((pattern.offset[lane] + b) / gpu::kSectorBytes, 0);
  int count = 0;
  for (auto& [sector, place] : places) place = count++;
  const double width = static_cast<double>(kWidth - 2 * kLeft) / std::max(count, 8);
  Drawing drawing;
  const auto x_of = [&](std::int64_t byte) {
    const std::int64_t sector = byte / gpu::kSectorBytes;
    return kLeft + (places[sector] + static_cast<double>(byte - sector * gpu::kSectorBytes) / gpu::kSectorBytes) * width;
  };
  for (const auto& [sector, place] : places) {
    drawing.body += box(kLeft + place * width, kTargetTop, width, kHeight, "#f2f2f2", fmt::format("bytes {} to {}", sector * 32, sector * 32 + 31));
    if (count <= 16) drawing.body += words(kLeft + place * width + 2, kTargetTop + kHeight + 12, std::to_string(sector * 32), "font-size=\"9\"");
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!has(pattern, lane)) continue;
    const double from = x_of(pattern.offset[lane]), bytes = width / gpu::kSectorBytes;
    const std::string title = fmt::format("lane {}: {} bytes at {}", lane, pattern.bytes[lane], pattern.offset[lane]);
    for (int b = 0; b < pattern.bytes[lane]; ++b)
      drawing.body += fmt::format("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>\n", x_of(pattern.offset[lane] + b),
                                  kTargetTop, bytes, kHeight, lane_colour(lane), title);
    drawing.body += line(lane_middle(lane), kLaneTop + kHeight, from + bytes, kTargetTop, lane_colour(lane));
  }
  drawing.height = kTargetTop + kHeight + 40;
  drawing.body += words(kLeft, kTargetTop + kHeight + 28, fmt::format("above: lanes; below: bytes. {} of 32 bytes, {} bytes from the first to the last", counted(count, "sector"),
                                                                      places.empty() ? 0 : (places.rbegin()->first - places.begin()->first + 1) * 32));
  return drawing;
}

/// Banks as columns; each word that a bank must give is a row further down, below those of the lanes that go before.
Drawing banks(const gpu::AccessPattern& pattern) {
  std::vector<std::vector<std::int64_t>> columns(gpu::kBanks);
  Drawing drawing;
  int rows = 0, earlier = 0;
  const unsigned together = gpu::lanes_together(*std::ranges::max_element(pattern.bytes));
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (lane % together == 0) {
      for (auto& column : columns) column.clear();
      earlier = rows;
    }
    if (!has(pattern, lane)) continue;
    for (std::int64_t word = pattern.offset[lane] / 4; word <= (pattern.offset[lane] + pattern.bytes[lane] - 1) / 4; ++word) {
      auto& column = columns[static_cast<std::size_t>(word % gpu::kBanks)];
      const auto at = std::ranges::find(column, word);
      const int row = earlier + static_cast<int>(at - column.begin()), x = kLeft + static_cast<int>(word % gpu::kBanks) * kLaneWidth;
      if (at == column.end()) {
        column.push_back(word);
        drawing.body += box(x, kTargetTop + row * kHeight, kLaneWidth, kHeight, lane_colour(lane), fmt::format("word {}, first asked for by lane {}", word, lane));
      }
      if (word == pattern.offset[lane] / 4) drawing.body += line(lane_middle(lane), kLaneTop + kHeight, x + kLaneWidth / 2.0, kTargetTop + row * kHeight + 3, lane_colour(lane));
      rows = std::max(rows, row + 1);
    }
  }
  for (int bank = 0; bank < gpu::kBanks; ++bank)  // over the lines
    drawing.body += words(kLeft + bank * kLaneWidth + 7, kTargetTop - 4, std::to_string(bank), "font-size=\"9\" paint-order=\"stroke\" stroke=\"white\" stroke-width=\"4\"");
  drawing.height = kTargetTop + rows * kHeight + 40;
  drawing.body += words(kLeft, drawing.height - 16, fmt::format("above: lanes; below: banks. {} lanes go together; {}, from top to bottom", together, counted(rows, "wavefront")));
  return drawing;
}

}  // namespace

std::string access_svg(const gpu::SiteCounters& site, const std::string& kernel) {
  const gpu::AccessPattern& pattern = site.worst;
  const Drawing below = site.shared ? banks(pattern) : sectors(pattern);
  std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                                "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n", kWidth, below.height);
  svg += words(kLeft, 22, fmt::format("{}: {} at {}", kernel, name_of(site.what), site.line), "font-weight=\"bold\"");
  svg += words(kLeft, 40, fmt::format("{} memory{}, warp {} of block {}: the costliest of {} requests", site.shared ? "shared" : "global",
                                      pattern.object.empty() ? "" : fmt::format(" '{}'", pattern.object), pattern.warp, pattern.block, site.requests));
  for (unsigned lane = 0; lane < 32; ++lane) {
    svg += box(kLeft + static_cast<int>(lane) * kLaneWidth, kLaneTop, kLaneWidth, kHeight, has(pattern, lane) ? lane_colour(lane) : "white", fmt::format("lane {}", lane));
    svg += words(kLeft + static_cast<int>(lane) * kLaneWidth + 6, kLaneTop + 14, std::to_string(lane), has(pattern, lane) ? "font-size=\"10\" fill=\"white\"" : "font-size=\"10\" fill=\"#999\"");
  }
  return svg + below.body + "</svg>\n";
}

}  // namespace patchbay::app
