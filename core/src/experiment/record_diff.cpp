#include "experiment/record_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiment/report.h"
#include "experiment/text_table.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

Json part(const Json& record, const char* key) { return record.value(key, Json::object()); }

/// What else the figures depend on, but for the settings and the machine.
Json origin_of(const Json& record) {
  Json origin = Json::object();
  for (const char* key : {"name", "model", "model_sha256", "seed", "repeat", "tasks"})
    if (record.contains(key)) origin[key] = record[key];
  auto evaluation = part(record, "evaluation");
  evaluation.erase("scores");  // the name of a file
  origin["evaluation"] = evaluation;
  return origin;
}

std::optional<double> number(const Json& metrics, const std::string& name) {
  if (!metrics.contains(name) || !metrics[name].is_number()) return std::nullopt;
  return metrics[name].get<double>();
}

std::optional<Interval> interval(const Json& metrics, const std::string& name) {
  if (!metrics.contains(name + "_ci")) return std::nullopt;
  const auto& ends = metrics[name + "_ci"];  // checked: see check_record
  return Interval{ends[0].get<double>(), ends[1].get<double>()};
}

std::vector<MetricDifference> metric_differences(const Json& first, const Json& second) {
  std::vector<std::string> names;
  for (const auto* metrics : {&first, &second})
    for (const auto& [name, value] : metrics->items())
      if (!name.ends_with("_ci") && !name.ends_with("_values") && std::ranges::find(names, name) == names.end()) names.push_back(name);
  std::vector<MetricDifference> rows;
  for (const auto& name : names) {
    MetricDifference row{name, number(first, name), number(second, name), interval(first, name), interval(second, name)};
    if (row.first || row.second) rows.push_back(std::move(row));
  }
  return rows;
}

PairedScores pair_scores(const TokenScores& first, const TokenScores& second, std::uint64_t seed) {
  Json metrics = Json::object();
  add_nll_difference(metrics, second, first, seed);
  PairedScores paired{static_cast<std::int64_t>(first.nll.size()), metrics["nll_difference"].get<double>(), interval(metrics, "nll_difference"), 0};
  for (std::size_t i = 0; i < first.nll.size(); ++i) paired.better += second.nll[i] < first.nll[i];
  return paired;
}

std::string shown(const std::optional<double>& value, const std::optional<Interval>& around) {
  if (!value) return "-";
  if (around) return plus_minus(*value, (around->high - around->low) / 2);
  return fmt::format("{:.10g}", *value);
}

/// A difference of two probabilities of chance says nothing.
bool is_p_value(const std::string& metric) { return metric.ends_with("_p") || metric.ends_with("_p_adjusted"); }

std::optional<double> difference_of(const MetricDifference& row) {
  return row.first && row.second && !is_p_value(row.name) ? std::optional(*row.second - *row.first) : std::nullopt;
}

std::string change(const MetricDifference& row) {
  const auto difference = difference_of(row);
  if (!difference) return "";
  const auto percent = *row.first != 0 && *difference != 0 ? fmt::format(" ({:+.2f}%)", 100 * *difference / *row.first) : "";
  return fmt::format("{:+.4g}{}", *difference, percent);
}

void add_section(std::string& text, const std::string& title, const std::vector<Difference>& rows, bool utf8) {
  if (rows.empty()) {
    text += title + ": the same\n\n";
    return;
  }
  TextTable table;
  table.header = {title, "A", "B"};
  for (const auto& row : rows) table.rows.push_back({escaped(row.path, 80), escaped(row.first, 60), escaped(row.second, 60)});
  text += table.text(utf8) + "\n";
}

Json as_json(const std::vector<Difference>& rows) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back({{"path", row.path}, {"a", row.first}, {"b", row.second}});
  return list;
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, Interval>) return value ? Json{value->low, value->high} : Json();
  else return value ? Json(*value) : Json();
}

}  // namespace

TokenScores scores_of_record(const FoundRecord& found) {
  const auto evaluation = part(found.record, "evaluation");
  const auto where = escaped(found.folder) + ": " + escaped(found.record["run"].get<std::string>(), 100);
  if (!evaluation.contains("scores") || !evaluation["scores"].is_string()) throw Error(where, "no text was scored", "a run with perplexity or divergence");
  const fs::path name = evaluation["scores"].get<std::string>();
  if (name.is_absolute() || name.lexically_normal().string().starts_with("..")) throw Error(where, "its scores lie outside the folder");
  const auto folder = fs::is_directory(found.folder) ? fs::path(found.folder) : fs::path(found.folder).parent_path();
  return read_scores((folder / name).string());
}

std::string unpaired_reason(const Json& first, const Json& second) {
  const auto left = part(first, "evaluation"), right = part(second, "evaluation");
  for (const char* key : {"text_sha256", "protocol", "window", "windows", "first_scored", "bos"}) {
    if (!left.contains(key) || !right.contains(key)) return fmt::format("a record without evaluation.{}", key);
    if (left[key] != right[key]) return fmt::format("evaluation.{} differs", key);
  }
  return "";
}

RecordDiff diff_records(const FoundRecord& first, const FoundRecord& second) {
  RecordDiff diff;
  diff.settings = differences(part(first.record, "config"), part(second.record, "config"));
  diff.origin = differences(origin_of(first.record), origin_of(second.record));
  diff.environment = differences(part(first.record, "environment"), part(second.record, "environment"));
  diff.metrics = metric_differences(first.record["metrics"], second.record["metrics"]);
  diff.unpaired = unpaired_reason(first.record, second.record);
  if (!diff.unpaired.empty()) return diff;
  try {
    const auto left = scores_of_record(first), right = scores_of_record(second);
    if (left.windows != right.windows || left.per_window != right.per_window) diff.unpaired = "the scores files differ in length";
    else diff.paired = pair_scores(left, right, first.record.value("seed", std::uint64_t{0}));
  } catch (const Error& error) {
    diff.unpaired = error.what();
  }
  return diff;
}

std::string diff_text(const RecordDiff& diff, const FoundRecord& first, const FoundRecord& second, bool utf8) {
  std::string text;
  for (const auto& [letter, found] : {std::pair{'A', &first}, std::pair{'B', &second}})
    text += fmt::format("{}: {} {} ({})\n", letter, escaped(found->folder), escaped(found->record["hash"].get<std::string>(), 40),
                        escaped(found->record["run"].get<std::string>(), 200));
  text += "\n";
  add_section(text, "settings", diff.settings, utf8);
  add_section(text, "model, seed, evaluation", diff.origin, utf8);
  add_section(text, "environment", diff.environment, utf8);
  TextTable table;
  table.header = {"metric", "A", "B", "B - A"};
  table.right = {false, true, true, true};
  for (const auto& row : diff.metrics)
    table.rows.push_back({escaped(row.name, 60), shown(row.first, row.first_interval), shown(row.second, row.second_interval), change(row)});
  text += table.text(utf8) + "\n";
  if (!diff.paired) return text + "Not paired by token: " + diff.unpaired + ".\n";
  const auto& paired = *diff.paired;
  const auto& ends = paired.nll_interval;
  text += fmt::format("Paired over {} tokens, B - A: negative log-likelihood {:+.5f} nats per token, {};\n"
                      "B gives {} tokens ({:.1f}%) more probability. Intervals resample blocks of {} tokens, the same for both.\n",
                      paired.tokens, paired.nll, ends ? fmt::format("95% interval {:+.5f} to {:+.5f}", ends->low, ends->high) : "too few for an interval",
                      paired.better,
                      100.0 * static_cast<double>(paired.better) / static_cast<double>(paired.tokens), kBlockTokens);
  return text;
}

Json diff_json(const RecordDiff& diff, const FoundRecord& first, const FoundRecord& second) {
  const auto name = [](const FoundRecord& found) {
    return Json{{"folder", found.folder}, {"run", found.record["run"]}, {"hash", found.record["hash"]}};
  };
  Json json = {{"a", name(first)}, {"b", name(second)}, {"settings", as_json(diff.settings)}, {"origin", as_json(diff.origin)},
               {"environment", as_json(diff.environment)}, {"metrics", Json::object()}};
  for (const auto& row : diff.metrics)
    json["metrics"][row.name] = {{"a", or_null(row.first)}, {"a_ci", or_null(row.first_interval)}, {"b", or_null(row.second)},
                                 {"b_ci", or_null(row.second_interval)},
                                 {"difference", or_null(difference_of(row))}};
  if (diff.paired)
    json["paired"] = {{"tokens", diff.paired->tokens}, {"nll_difference", diff.paired->nll},
                      {"nll_difference_ci", or_null(diff.paired->nll_interval)},
                      {"better_tokens", diff.paired->better}};
  else
    json["unpaired"] = diff.unpaired;
  return json;
}

}  // namespace patchbay
