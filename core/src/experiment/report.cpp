#include "experiment/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "experiment/text_table.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// A column of the table: which metric, under which title, times what.
struct Column {
  const char* metric;
  const char* title;
  double factor = 1;
  const char* unit = "";
  double offset = 0;
};
constexpr Column kColumns[] = {
    {"perplexity", "perplexity"},
    {"perplexity_ratio", "against\nbaseline", 100, "%", -100},
    {"kl_nats", "KL, 10^-3\nnats", 1e3},
    {"top1_agreement", "same\ntop-1", 100, "%"},
    {"bits_per_weight", "bits/\nweight"},
    {"kv_bytes_per_token", "KV B/\ntoken"},
    {"peak_rss_bytes", "peak\nMiB", 1.0 / (1 << 20)},
    {"prefill_tokens_per_s", "prefill\ntokens/s"},
    {"decode_tokens_per_s", "decode\ntokens/s"},
    {"acceptance_rate", "accepted", 100, "%"},
};

const Json* metric_of(const Json& record, const std::string& name) {
  const auto metrics = record.find("metrics");
  if (metrics == record.end() || !metrics->is_object()) return nullptr;
  const auto found = metrics->find(name);
  return found == metrics->end() || found->is_null() ? nullptr : &*found;
}

std::string plain(double value) {
  if (std::fabs(value) >= 100 || value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.2f}", value);
}

std::string cell(const Json& record, const Column& column) {
  const auto* value = metric_of(record, column.metric);
  if (!value || !value->is_number()) return "-";
  const double shown = value->get<double>() * column.factor + column.offset;
  const auto* interval = metric_of(record, std::string(column.metric) + "_ci");
  if (!interval || !interval->is_array() || interval->size() != 2 || !(*interval)[0].is_number() || !(*interval)[1].is_number())
    return plain(shown) + column.unit;
  const double half = ((*interval)[1].get<double>() - (*interval)[0].get<double>()) / 2 * column.factor;
  return plus_minus(shown, half) + column.unit;
}

bool is_baseline(const Json& record) { return record.value("baseline", false); }

/// The columns in which the runs differ, in the order of the first record.
std::vector<std::string> label_columns(std::span<const Json> records) {
  std::vector<std::string> names;
  for (const auto& record : records)
    if (const auto labels = record.find("labels"); labels != record.end() && labels->is_object())
      for (const auto& [name, value] : labels->items())
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

/// A long dotted title stands on two lines.
std::string title_of(std::string name) {
  if (const auto dot = name.rfind('.'); name.size() > 10 && dot != std::string::npos) name.replace(dot, 1, ".\n");
  return name;
}

std::string text_at(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = &record;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "?";
    at = &at->at(key);
  }
  return at->is_string() ? at->get<std::string>() : at->dump();
}

/// What all records have in common at `path`, or how many different values there are.
std::string common(std::span<const Json> records, std::initializer_list<const char*> path) {
  const auto first = text_at(records[0], path);
  const bool equal = std::all_of(records.begin(), records.end(), [&](const Json& r) { return text_at(r, path) == first; });
  return equal ? first : "several";
}

std::string legend(std::span<const Json> records, const std::function<bool(const char*)>& shown) {
  std::string text = "* the baseline. ± is half of a 95% interval (percentile bootstrap, 1000 resamples).\n";
  if (shown("perplexity") || shown("kl_nats"))
    text += fmt::format("Quality: text {} (sha256 {:.8}), protocol {}: {} windows of {} tokens, scored from token {} on, BOS {};\n"
                        "  intervals resample blocks of 32 scored tokens, paired with the baseline.\n",
                        common(records, {"evaluation", "text"}), common(records, {"evaluation", "text_sha256"}),
                        common(records, {"evaluation", "protocol"}), common(records, {"evaluation", "windows"}),
                        common(records, {"evaluation", "window"}), common(records, {"evaluation", "first_scored"}),
                        common(records, {"evaluation", "bos"}));
  if (shown("kl_nats") && common(records, {"config", "activations"}) != "fp32")
    text += "  activations are rounded to 8 bits: that alone sets runs a few 10^-3 nats apart, whatever differs (docs/measuring.md).\n";
  if (shown("decode_tokens_per_s") || shown("prefill_tokens_per_s"))
    text += fmt::format("Speed: medians of {} repeats that follow each other, one sequence, {} threads, {};\n"
                        "  intervals resample the repeats (3 hold the median 75 times of 100, 6 hold it 97 times), not what changes between runs.\n",
                        common(records, {"repeat"}), common(records, {"environment", "threads"}), common(records, {"environment", "cpu"}));
  if (shown("acceptance_rate")) text += "Accepted: draft tokens kept, of those proposed; intervals resample the prompts.\n";
  return text;
}

}  // namespace

std::string plus_minus(double value, double half_width) {
  if (!std::isfinite(value) || !std::isfinite(half_width)) return fmt::format("{}", value);
  if (half_width < 1e-12) return std::fabs(value) < 1e-12 ? "0" : fmt::format("{:.4g}", value);
  // Two digits of the half-width are worth showing where they begin with 10 to 34, else one.
  const int magnitude = static_cast<int>(std::floor(std::log10(half_width)));
  if (magnitude < -5) return fmt::format("{:.1e} ±{:.0e}", value, half_width);
  const bool two = half_width / std::pow(10.0, magnitude) < 3.5;
  const int decimals = std::max(0, (two ? 1 : 0) - magnitude);
  return fmt::format("{:.{}f} ±{:.{}f}", value, decimals, half_width, decimals);
}

std::string report_table(std::span<const nlohmann::ordered_json> records, bool utf8) {
  if (records.empty()) return "no records\n";
  const auto labels = label_columns(records);
  const auto shown = [&](const char* metric) {
    return std::any_of(records.begin(), records.end(), [&](const Json& record) { return metric_of(record, metric) != nullptr; });
  };
  TextTable table;
  for (const auto& name : labels) table.header.push_back(title_of(name));
  if (labels.empty()) table.header.push_back("run");
  table.right.assign(table.header.size(), false);
  for (const auto& column : kColumns) {
    if (!shown(column.metric)) continue;
    table.header.push_back(column.title);
    table.right.push_back(true);
  }
  for (const auto& record : records) {
    std::vector<std::string> row;
    for (const auto& name : labels) row.push_back(text_at(record, {"labels", name.c_str()}));
    if (labels.empty()) row.push_back(text_at(record, {"run"}));
    row[0] = fmt::format("{} {}", is_baseline(record) ? '*' : ' ', row[0]);
    for (const auto& column : kColumns)
      if (shown(column.metric)) row.push_back(cell(record, column));
    table.rows.push_back(std::move(row));
  }
  for (std::size_t line = 0; line != std::string::npos; line = table.header[0].find('\n', line + 2)) table.header[0].insert(line == 0 ? 0 : line + 1, 2, ' ');
  auto text = legend(records, shown);
  if (!utf8)
    for (std::size_t at; (at = text.find("±")) != std::string::npos;) text.replace(at, std::string("±").size(), "+-");
  return table.text(utf8) + "\n" + text;
}

}  // namespace patchbay
