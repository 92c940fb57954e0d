// The second table of a report: what the machine's limits allow, and how much of it was reached.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/cpu_load.h"
#include "experiment/report.h"
#include "experiment/text_table.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// The number at a path, or nothing.
const Json* number_at(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = value_at(record, path);
  return at && at->is_number() ? at : nullptr;
}

std::string predicted_cell(const Json& record, const char* metric, double factor, int decimals) {
  const auto* value = number_at(record, {"metrics", metric});
  return value ? fmt::format("{:.{}f}", value->get<double>() * factor, decimals) : "-";
}

std::string share_cell(const Json& record, const std::string& metric) {
  const auto* value = number_at(record, {"metrics", metric.c_str()});
  if (!value) return "-";
  const double share = 100 * value->get<double>();
  const auto half = half_interval(record, metric);
  return half ? plus_minus(share, 100 * *half) + "%" : fmt::format("{:.0f}%", share);
}

/// "21.4 GB/s (20.1 to 22.0)"
std::string limit_text(const Json& record, const char* name, const char* unit) {
  const auto part = [&](const char* key) { return number_at(record, {"environment", "calibration", name, key}); };
  const auto *median = part("median"), *low = part("low"), *high = part("high");
  if (!median || !low || !high) return "unknown";
  return fmt::format("{:.1f} {} ({:.1f} to {:.1f})", median->get<double>() / 1e9, unit, low->get<double>() / 1e9, high->get<double>() / 1e9);
}

/// What the machine can do at most, as the record's run found it.
std::string limits_text(const Json& record) {
  return fmt::format("as measured {}:\n  memory {}, cache {}, fp32 {}, int8 {}",
                     escaped(record_text(record, {"environment", "calibration", "date"}), 40), limit_text(record, "memory_read_bytes_per_s", "GB/s"),
                     limit_text(record, "cache_read_bytes_per_s", "GB/s"), limit_text(record, "fp32_flops_per_s", "GFLOP/s"),
                     limit_text(record, "int8_ops_per_s", "GOP/s"));
}

bool is_predicted(const Json& record) { return number_at(record, {"metrics", "predicted_prefill_tokens_per_s"}) != nullptr; }

}  // namespace

ReportGrid roofline_grid(std::span<const Json> records) {
  const auto figures = report_grid(records);
  const auto labels = static_cast<std::ptrdiff_t>(figures.labels);
  ReportGrid grid{{figures.header.begin(), figures.header.begin() + labels}, {}, figures.labels};
  for (const char* title : {"moved MB/\ntoken", "prefill\nroofline", "prefill\nreached", "decode\nroofline", "decode\nreached"}) grid.header.emplace_back(title);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& record = records[i];
    if (!is_predicted(record)) continue;
    std::vector<std::string> row(figures.rows[i].begin(), figures.rows[i].begin() + labels);
    if (record.value("baseline", false)) row[0] += " *";
    for (auto& cell : {predicted_cell(record, "predicted_decode_bytes_per_token", 1e-6, 1), predicted_cell(record, "predicted_prefill_tokens_per_s", 1, 0),
                       share_cell(record, "prefill_of_roofline"), predicted_cell(record, "predicted_decode_tokens_per_s", 1, 0),
                       share_cell(record, "decode_of_roofline")})
      row.push_back(cell);
    grid.rows.push_back(std::move(row));
  }
  return grid.rows.empty() ? ReportGrid{} : grid;
}

std::string roofline_legend(std::span<const Json> records) {
  std::vector<Json> predicted;
  std::ranges::copy_if(records, std::back_inserter(predicted), is_predicted);
  const auto threads = each_once(predicted, threads_text, " or ");
  const bool one_count = threads == threads_text(predicted.at(0));
  const auto limits = [&](const Json& record) { return (one_count ? "" : threads_text(record) + ", ") + limits_text(record); };
  auto text = fmt::format("Roofline, tokens/s: what {} could do if only the machine's limits held them back, {}.\n"
                          "  A share is no better than these (lowest to highest of the repeats). Moved: weights and cached rows, per output token.\n",
                          threads, each_once(predicted, limits, ";\n  "));
  double busiest = 0;
  for (const auto& record : records)
    if (const auto* share = number_at(record, {"environment", "calibration", "busy_share"})) busiest = std::max(busiest, share->get<double>());
  if (busiest > kBusyFrom) text += fmt::format("  Meanwhile others took up to {:.0f}% of the cores' time.\n", 100 * busiest);
  return text;
}

std::string roofline_table(std::span<const Json> records, bool utf8, std::size_t columns) {
  const auto grid = roofline_grid(records);
  if (grid.rows.empty()) return "";
  TextTable table{grid.header, grid.rows, {}};
  for (std::size_t c = 0; c < grid.header.size(); ++c) table.right.push_back(c >= grid.labels);
  return "\n" + table.text(utf8, columns, grid.labels) + "\n" + roofline_legend(records);
}

}  // namespace patchbay
