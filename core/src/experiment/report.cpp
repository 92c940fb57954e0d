#include "experiment/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiment/against.h"
#include "experiment/comparisons.h"
#include "experiment/cpu_load.h"
#include "experiment/emulated.h"
#include "experiment/record_set.h"
#include "experiment/text_table.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr double kBoundless = 1000;  ///< half-widths and noise beyond it, in percent, are not shown as figures

/// A column of the table: which metric, under which title (@: what against_title says), times what.
struct Column {
  const char* metric;
  const char* title;
  double factor = 1;
  const char* unit = "";
  double offset = 0;
  const char* paired = nullptr;  ///< the column that shows this one's differences: its interval is the one to read
};
constexpr const char* kBusy = "busy_share";
constexpr Column kColumns[] = {
    {"perplexity", "perplexity"},
    {"perplexity_ratio", "against\nbaseline", 100, "%", -100},
    {"against_perplexity_ratio", "against\n@", 100, "%", -100},
    {"kl_nats", "KL, 10^-3\nnats", 1e3},
    {"against_kl_nats", "KL against\n@", 1e3},
    {"top1_agreement", "same\ntop-1", 100, "%"},
    {"against_top1_agreement", "top-1\nagainst @", 100, "%"},
    {"bits_per_weight", "bits/\nweight"},
    {"kv_bytes_per_token", "KV B/\ntoken"},
    {"peak_rss_bytes", "peak\nMiB", 1.0 / (1 << 20)},
    {"prefill_tokens_per_s", "prefill\ntok/s", 1, "", 0, "prefill_speed_ratio"},
    {"prefill_speed_ratio", "against\nbaseline", 100, "%", -100},
    {"decode_tokens_per_s", "decode\ntok/s", 1, "", 0, "decode_speed_ratio"},
    {"decode_speed_ratio", "against\nbaseline", 100, "%", -100},
    {kBusy, "busy", 100, "%"},
    {"acceptance_rate", "accepted", 100, "%"},
    {"tokens_per_pass", "tokens/\npass"},
};

const Json* metric_of(const Json& record, const std::string& name) {
  const auto metrics = record.find("metrics");
  if (metrics == record.end() || !metrics->is_object()) return nullptr;
  const auto found = metrics->find(name);
  return found == metrics->end() || found->is_null() ? nullptr : &*found;
}

double number_of(const Json& record, const std::string& name, double missing) {
  const auto* value = metric_of(record, name);
  return value && value->is_number() ? value->get<double>() : missing;
}

bool shows(std::span<const Json> records, const std::string& metric) {
  return std::ranges::any_of(records, [&](const Json& record) {
    return metric == kBusy ? number_of(record, metric, 0) > kBusyFrom : metric_of(record, metric) != nullptr;
  });
}

/// Passes count where something is drafted; the peak counts where the model ran before it was read, for speed or for texts.
bool says_something(std::span<const Json> records, std::string_view metric) {
  if (metric == "tokens_per_pass") return shows(records, "acceptance_rate");
  if (metric == "peak_rss_bytes") return shows(records, "tokens_per_pass") || shows(records, "prefill_tokens_per_s");
  return true;
}

std::string plain(double value) {
  if (std::fabs(value) >= 100 || value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.2f}", value);
}

/// An interval that says nothing: two disturbed rounds make Student's t give widths of millions of percent.
bool is_boundless(double value, double half_width) { return half_width > kBoundless && half_width > kBoundless / 100 * std::fabs(value); }

/// A speed of the emulator, or a ratio of two: nobody must take it for a GPU's.
bool is_emulated_speed(const Json& record, std::string_view metric) {
  return value_at(record, {"environment", "emulated"}) && (metric.ends_with("_tokens_per_s") || metric.ends_with("_speed_ratio"));
}

std::string cell(const Json& record, const Column& column, bool with_interval) {
  const auto* value = metric_of(record, column.metric);
  if (!value || !value->is_number()) return "-";
  const double shown = value->get<double>() * column.factor + column.offset;
  if (column.metric == std::string_view(kBusy)) return fmt::format("{:.0f}%", shown);
  const auto half = with_interval ? half_interval(record, column.metric) : std::nullopt;
  const std::string figure = (half ? plus_minus(shown, *half * column.factor) : plain(shown)) + column.unit;
  return is_emulated_speed(record, column.metric) ? figure + " (emulated)" : figure;
}

/// So many of the first columns are kSourceColumns.
std::size_t source_columns(const std::vector<std::string>& labels) {
  const auto is_source = [](const std::string& name) { return std::ranges::find(kSourceColumns, name) != std::end(kSourceColumns); };
  return static_cast<std::size_t>(std::ranges::find_if_not(labels, is_source) - labels.begin());
}

bool is_noise(const Json& record) { return record.value("noise", false); }
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

/// Whether a difference holds when all of the table are looked at together; nothing where it was not tested.
std::optional<bool> stands_out(const Json& record, const std::string& metric) {
  const double p = number_of(record, metric + "_p_adjusted", -1);
  return p < 0 ? std::nullopt : std::optional<bool>(p < kFamilyError);
}

/// The records that have something at a path.
std::vector<Json> that_have(std::span<const Json> all, std::initializer_list<const char*> path) {
  std::vector<Json> records;
  std::ranges::copy_if(all, std::back_inserter(records), [&](const Json& record) { return value_at(record, path) != nullptr; });
  return records;
}

std::string comparisons_legend(std::span<const Json> records) {
  const auto tested = [](const Json& record) {
    return std::ranges::count_if(kColumns, [&](const Column& column) { return stands_out(record, column.metric).has_value(); });
  };
  std::ptrdiff_t count = 0;
  for (const auto& record : records) count += tested(record);
  if (count == 0) return "";
  return fmt::format("! a difference {} that holds among the {} of this table: paired t-tests, p-values adjusted by Holm (1979), so that at most\n"
                     "  {:.0f} of 100 such tables have a wrong mark. Without it a difference may be chance, whatever its own interval says.\n",
                     is_against(records) ? "between two runs" : "from the baseline", count, 100 * kFamilyError);
}

/// The largest difference of a speed that the interval of the baseline's second measurement holds, in percent; less than 0: unknown.
double noise_of(std::span<const Json> records, const char* metric) {
  double largest = -1;
  for (const auto& record : records)
    if (const auto* interval = is_noise(record) ? metric_of(record, std::string(metric) + "_ci") : nullptr)
      for (const auto& end : *interval) largest = std::max(largest, 100 * std::fabs(end.get<double>() - 1));
  return largest;
}

std::string boundless_legend(std::span<const Json> records) {
  const bool any = std::ranges::any_of(records, [](const Json& record) {
    return std::ranges::any_of(kColumns, [&](const Column& column) { return cell(record, column, true).find("±?") != std::string::npos; });
  });
  return any ? "±?: the rounds differ too much to tell (an interval of more than ten times the value): raise repeat, or wait for a quiet machine.\n" : "";
}

std::string noise_legend(std::span<const Json> records) {
  if (std::ranges::none_of(records, is_noise)) return "";
  std::string text = "Baseline again, noise alone: ";
  const double prefill = noise_of(records, "prefill_speed_ratio"), decode = noise_of(records, "decode_speed_ratio");
  const auto percent = [](double value) { return value > kBoundless ? fmt::format("more than {:.0f}%", kBoundless) : fmt::format("{:.{}f}%", value, value < 10 ? 1 : 0); };
  const bool timed = prefill >= 0 || decode >= 0;
  if (timed)
    text += fmt::format("differences of speed up to {}{}{} mean nothing here", prefill >= 0 ? percent(prefill) + " (prefill)" : "",
                        prefill >= 0 && decode >= 0 ? " and " : "", decode >= 0 ? percent(decode) + " (decode)" : "");
  const auto split = that_have(records, {"evaluation", "batch_split"});
  const bool scored = !split.empty() && (shows(records, "perplexity_ratio") || shows(records, "kl_nats"));
  if (!timed && !scored) return "";
  const auto part = [](const Json& record) {
    return fmt::format("on {} of the windows,\n  computed in batches of {} tokens", record_text(record, {"evaluation", "windows"}),
                       record_text(record, {"evaluation", "batch_split"}));
  };
  if (scored) text += (timed ? "; quality " : "quality ") + each_once(split, part, ", or ");
  return text + ".\n";
}

/// What the quality columns rest on; records of folders that scored no text have no say in it.
std::string quality_legend(std::span<const Json> all) {
  const auto records = that_have(all, {"evaluation", "protocol"});
  if (records.empty()) return "";
  const auto scored = [](const Json& record) {
    const auto part = [&](const char* key) { return escaped(record_text(record, {"evaluation", key}), 120); };
    return fmt::format("text {} (sha256 {:.8}), protocol {}: {} of {} tokens, scored from token {} on, BOS {}", part("text"), part("text_sha256"),
                       part("protocol"), counted(part("windows"), "window"), part("window"), part("first_scored"), part("bos"));
  };
  return fmt::format("Quality: {};\n"
                     "  intervals (percentile bootstrap, 1000 resamples) resample blocks of 32 scored tokens, paired with {}.\n",
                     each_once(records, scored, ";\n  or "), is_against(records) ? "the other run" : "the baseline");
}

std::string speed_legend(std::span<const Json> all) {
  const auto timed = [](const Json& record) { return metric_of(record, "decode_tokens_per_s") || metric_of(record, "prefill_tokens_per_s"); };
  std::vector<Json> records;
  std::ranges::copy_if(all, std::back_inserter(records), timed);
  if (records.empty()) return "";
  const auto how = [](const Json& record) {
    return fmt::format("{}, {}; medians of {}", threads_text(record), escaped(record_text(record, {"environment", "cpu"}), 120),
                       counted(escaped(record_text(record, {"repeat"}), 20), "round"));
  };
  const bool emulated = std::ranges::any_of(records, [](const Json& record) { return value_at(record, {"environment", "emulated"}); });
  return (emulated ? std::string(kEmulatedSpeed) + "\n" : "") +
         fmt::format("Speed: one sequence, {} in which each run is measured once, in drawn order{}.\n", each_once(records, how, ",\n  or "),
                     is_against(records) ? "" : ";\n  against baseline: geometric mean of the rounds' ratios, its interval from Student's t over the rounds");
}

/// The row of the baseline again says so in its first column that is no source, or beside the source where there is none.
void name_noise_row(std::vector<std::string>& row, std::size_t sources) {
  constexpr const char* kAgain = "baseline again";
  if (sources < row.size()) row[sources] = kAgain;
  else row.back() += std::string(", ") + kAgain;
}

/// A figure's title, with what @ stands for.
std::string title_of(const Column& column, std::span<const Json> records) {
  std::string title = column.title;
  if (const auto at = title.find('@'); at != std::string::npos) title.replace(at, 1, against_title(records));
  return title;
}

/// A long dotted title stands on two lines.
std::string title_of(std::string name) {
  if (const auto dot = name.rfind('.'); name.size() > 10 && dot != std::string::npos) name.replace(dot, 1, ".\n");
  return name;
}

}  // namespace

std::string plus_minus(double value, double half_width) {
  if (!std::isfinite(value) || !std::isfinite(half_width)) return fmt::format("{}", value);
  if (is_boundless(value, half_width)) return fmt::format("{:.0f} ±?", value);
  if (half_width < 1e-12) return std::fabs(value) < 1e-12 ? "0" : fmt::format("{:.4g}", value);
  // Two digits of the half-width are worth showing where they begin with 10 to 34, else one.
  const int magnitude = static_cast<int>(std::floor(std::log10(half_width)));
  if (magnitude < -5) return fmt::format("{:.1e} ±{:.0e}", value, half_width);
  const bool two = half_width / std::pow(10.0, magnitude) < 3.5;
  const int decimals = std::max(0, (two ? 1 : 0) - magnitude);
  return fmt::format("{:.{}f} ±{:.{}f}", value, decimals, half_width, decimals);
}

const Json* value_at(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = &record;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return at;
}

std::optional<double> half_interval(const Json& record, const std::string& metric) {
  const auto* interval = metric_of(record, metric + "_ci");
  if (!interval || !interval->is_array() || interval->size() != 2 || !(*interval)[0].is_number() || !(*interval)[1].is_number()) return {};
  return ((*interval)[1].get<double>() - (*interval)[0].get<double>()) / 2;
}

std::string record_text(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = value_at(record, path);
  if (!at) return "?";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

std::string common_text(std::span<const Json> records, std::initializer_list<const char*> path) {
  const auto first = record_text(records[0], path);
  const bool equal = std::all_of(records.begin(), records.end(), [&](const Json& r) { return record_text(r, path) == first; });
  return equal ? escaped(first, 120) : "several";
}

std::string each_once(std::span<const Json> records, const std::function<std::string(const Json&)>& text, const std::string& between) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> texts;
  for (const auto& record : records)
    if (auto one = text(record); std::ranges::find(texts, one) == texts.end()) texts.push_back(std::move(one));
  if (texts.size() > kMost) {
    texts[kMost - 1] = fmt::format("{} others", texts.size() - kMost + 1);
    texts.resize(kMost);
  }
  return fmt::format("{}", fmt::join(texts, between));
}

std::string threads_text(const Json& record) {
  const auto text = counted(escaped(record_text(record, {"environment", "threads"}), 20), "thread");
  const auto *threads = value_at(record, {"environment", "threads"}), *cores = value_at(record, {"environment", "cores"});
  const bool more = threads && cores && threads->is_number_integer() && cores->is_number_integer() && *threads > *cores;
  return more ? fmt::format("{} on {}", text, counted(cores->dump(), "core")) : text;
}

std::vector<Json> without_noise(std::vector<Json> records) {
  std::erase_if(records, is_noise);
  return records;
}

std::string report_legend(std::span<const Json> all) {
  const auto runs = without_noise({all.begin(), all.end()});
  const std::span<const Json> records = runs.empty() ? all : std::span<const Json>(runs);
  const auto shown = [&](const char* metric) { return shows(all, metric); };
  std::string text = "* the baseline. ± is half of a 95% interval.\n" + boundless_legend(all) + against_legend(records) + comparisons_legend(records) + noise_legend(all);
  if (shown("perplexity") || shown("kl_nats")) text += quality_legend(records);
  const auto is_rounded = [](const Json& record) { return metric_of(record, "kl_nats") && record_text(record, {"config", "activations"}) != "fp32"; };
  if (std::ranges::any_of(records, is_rounded))
    text += "  Activations are rounded to 8 bits: that alone sets runs apart (SmolLM2: by 3 to 4 10^-3 nats), whatever differs "
            "(docs/measuring.md).\n";
  text += speed_legend(records);
  if (shown(kBusy))
    text += fmt::format("Busy: share of the cores' time that other programs took meanwhile. Above {:.0f}% a speed says as much about them as about the run.\n",
                        100 * kBusyFrom);
  if (shown("acceptance_rate")) text += "Accepted: draft tokens kept, of those proposed; intervals resample the prompts.\n";
  return text;
}

ReportGrid report_grid(std::span<const Json> records) {
  ReportGrid grid;
  const auto labels = label_columns(records);
  for (const auto& name : labels) grid.header.push_back(title_of(escaped(name, 60)));
  if (labels.empty()) grid.header.emplace_back("run");
  grid.labels = grid.header.size();
  std::vector<const Column*> columns;
  for (const auto& column : kColumns)
    if (shows(records, column.metric) && says_something(records, column.metric)) columns.push_back(&column);
  for (const auto& record : records) {
    std::vector<std::string> row;
    const std::size_t sources = source_columns(labels);
    for (std::size_t c = 0; c < labels.size(); ++c)
      row.push_back(is_noise(record) && c >= sources ? "" : escaped(record_text(record, {"labels", labels[c].c_str()}), 60));
    if (labels.empty()) row.push_back(is_noise(record) ? "" : escaped(record_text(record, {"run"}), 60));
    if (is_noise(record)) name_noise_row(row, sources);
    grid.rows.push_back(std::move(row));
  }
  for (const auto* column : columns) {
    grid.header.push_back(title_of(*column, records));
    const bool tested = std::ranges::any_of(records, [&](const Json& record) { return stands_out(record, column->metric).has_value(); });
    const bool with_interval = !column->paired || !shows(records, column->paired);
    for (std::size_t i = 0; i < records.size(); ++i)
      grid.rows[i].push_back(cell(records[i], *column, with_interval) + (!tested ? "" : stands_out(records[i], column->metric).value_or(false) ? "!" : " "));
  }
  return grid;
}

std::string report_table(std::span<const Json> records, bool utf8, std::size_t columns) {
  if (records.empty()) return "no records\n";
  const auto grid = report_grid(records);
  TextTable table{grid.header, grid.rows, {}};
  for (std::size_t c = 0; c < grid.header.size(); ++c) table.right.push_back(c >= grid.labels);
  for (std::size_t i = 0; i < records.size(); ++i) table.rows[i][0].insert(0, is_baseline(records[i]) ? "* " : "  ");
  auto& first = table.header[0];
  for (std::size_t line = 0; line != std::string::npos; line = first.find('\n', line + 2)) first.insert(line == 0 ? 0 : line + 1, 2, ' ');
  const auto legend = report_legend(records);
  return table.text(utf8, columns, grid.labels) + "\n" + (utf8 ? legend : ascii(legend)) + roofline_table(records, utf8, columns);
}

std::string report_text(const RecordSet& set, bool utf8, std::size_t columns) {
  return report_table(merged_records(set), utf8, columns) + baseline_rule(set) + source_notes(set);
}

std::string baseline_rule(const RecordSet& set) {
  if (set.sources.size() < 2) return "";
  // What a comparison with the baseline rests on; the number of windows is part of it.
  const auto basis = [](const Json& record) {
    auto evaluation = record.value("evaluation", Json::object());
    Json rests = {record.value("config", Json::object()), record.value("model_sha256", "")};
    for (const char* key : {"text_sha256", "protocol", "window", "windows", "first_scored"}) rests.push_back(evaluation.value(key, Json()));
    return rests;
  };
  std::vector<Json> baselines;
  for (const auto& record : set.records)
    if (is_baseline(record)) baselines.push_back(basis(record));
  const bool equal = std::ranges::all_of(baselines, [&](const Json& b) { return b == baselines[0]; });
  return fmt::format("Each row is compared with {}; these {} have {}.\n",
                     is_against(set.records) ? "a run of its own folder, and by KL and top-1 with the baseline (*) there" : "the baseline (*) of its own folder",
                     baselines.size(),
                     equal ? "the same settings, model and text"
                           : "different settings, model or text: compare columns that are relative to it within a folder only");
}

std::string source_notes(const RecordSet& set) {
  std::string notes;
  for (std::size_t s = 0; s < set.sources.size(); ++s) {
    const auto& source = set.sources[s];
    const auto shown = std::ranges::count(set.source_of, s);
    if (source.planned > shown) notes += fmt::format("{}: {} of {} runs are finished.\n", escaped(source.folder), shown, source.planned);
    if (source.left_out > 0)
      notes += fmt::format("{}: {} left out (of the same runs, or of runs that the experiment no longer has).\n",
                           escaped(source.folder), counted(source.left_out, "older record"));
  }
  return notes;
}

}  // namespace patchbay
