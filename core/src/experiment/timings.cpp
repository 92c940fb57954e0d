#include "experiment/timings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "experiment/comparisons.h"
#include "files.h"

namespace patchbay {
namespace {

struct Field {
  const char* name;
  double RunTimes::*value;
};
constexpr const char* kDecode = "decode_tokens_per_s";
constexpr Field kFields[] = {{"prefill_tokens_per_s", &RunTimes::prefill_tokens_per_s}, {kDecode, &RunTimes::decode_tokens_per_s},
                             {"ttft_ms", &RunTimes::ttft_ms}, {"tpot_ms", &RunTimes::tpot_ms}};
constexpr const char* kBusy = "busy_share";
constexpr const char* kDecodeRatio = "decode_speed_ratio";
constexpr const char* kOfKind = "decode_tokens_per_s_of";

Json json_of(const RunTimes& times) {
  Json json = Json::object();
  for (const auto& field : kFields) json[field.name] = times.*field.value;
  json[kBusy] = std::isnan(times.busy_share) ? Json() : Json(times.busy_share);
  json[kOfKind] = times.decode_tokens_per_s_of;
  return json;
}

RunTimes times_of(const Json& json) {
  RunTimes times;
  for (const auto& field : kFields) times.*field.value = json.at(field.name).get<double>();
  times.busy_share = json.at(kBusy).is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at(kBusy).get<double>();
  times.decode_tokens_per_s_of = json.value(kOfKind, times.decode_tokens_per_s_of);
  return times;
}

template <class Value>
std::vector<double> values_of(const Series& series, Value value) {
  std::vector<double> values;
  for (const auto& round : series.rounds) values.push_back(value(round));
  return values;
}

/// Speeds are compared as ratios, so their logarithms are averaged: the geometric mean of the rounds' ratios.
template <class Speed>
void add_ratio(Json& metrics, const std::string& name, const Series& series, const std::string& run, Speed speed) {
  if (run == series.runs[0]) return;
  const auto logs = values_of(series, [&](const auto& round) { return std::log(speed(round.at(run)) / speed(round.at(series.runs[0]))); });
  if (!std::ranges::all_of(logs, [](double value) { return std::isfinite(value); })) return;  // a speed of 0: nothing was decoded
  const std::vector<double> ones(logs.size(), 1.0);
  double sum = 0;
  for (const double value : logs) sum += value;
  metrics[name] = std::exp(sum / static_cast<double>(logs.size()));
  const auto test = paired_test(logs, ones);
  if (!test) return;
  metrics[name + "_ci"] = {std::exp(test->interval.low), std::exp(test->interval.high)};
  metrics[name + "_p"] = test->p;
}

}  // namespace

TimingsFile::TimingsFile(std::string path, std::string host) : path_(std::move(path)), host_(std::move(host)) {
  if (!std::filesystem::exists(path_)) return;
  cut_torn_line(path_);
  std::int64_t number = 0;
  for (const auto& line : whole_lines(path_)) {
    const auto where = path_ + ":" + std::to_string(++number);
    const auto round = Json::parse(line, nullptr, false);
    try {
      if (round.at("host") == host_) take(round, where);
    } catch (const Json::exception&) {
      throw Error(where, "is no round of timings", {}, "remove the line");
    }
  }
}

void TimingsFile::take(const Json& round, const std::string& where) {
  const auto id = round.at("series").get<std::string>();
  auto& kept = by_id_[id];
  if (kept.series.rounds.empty()) order_.push_back(id);
  kept.wanted = round.at("rounds").get<int>();
  kept.series.runs = round.at("runs").get<std::vector<std::string>>();
  if (round.at("round").get<std::size_t>() != kept.series.rounds.size() + 1) throw Error(where, "rounds are not in order", {}, "remove the line");
  std::map<std::string, RunTimes> times;
  for (const auto& run : kept.series.runs) times[run] = times_of(round.at("times").at(run));
  kept.series.rounds.push_back(std::move(times));
}

const Series& TimingsFile::series(const std::string& series) const {
  static const Series none;
  const auto found = by_id_.find(series);
  return found == by_id_.end() ? none : found->second.series;
}

void TimingsFile::add_round(const std::string& series, int rounds, const std::vector<std::string>& runs, const std::map<std::string, RunTimes>& times) {
  Json round = {{"series", series}, {"host", host_}, {"round", this->series(series).rounds.size() + 1}, {"rounds", rounds}, {"runs", runs}, {"times", Json::object()}};
  for (const auto& [run, value] : times) round["times"][run] = json_of(value);
  append_line(path_, round.dump());
  take(round, path_);
}

const Series* TimingsFile::finished(const std::string& run) const {
  for (const auto& id : order_) {
    const auto& kept = by_id_.at(id);
    if (static_cast<int>(kept.series.rounds.size()) >= kept.wanted && std::ranges::find(kept.series.runs, run) != kept.series.runs.end())
      return &kept.series;
  }
  return nullptr;
}

void add_times(Json& metrics, const Series& series, const std::string& run, std::uint64_t seed) {
  for (const auto& field : kFields)
    add_timing(metrics, field.name, values_of(series, [&](const auto& round) { return round.at(run).*field.value; }), seed);
  add_ratio(metrics, "prefill_speed_ratio", series, run, [](const RunTimes& times) { return times.prefill_tokens_per_s; });
  add_ratio(metrics, kDecodeRatio, series, run, [](const RunTimes& times) { return times.decode_tokens_per_s; });
  const auto busy = values_of(series, [&](const auto& round) { return round.at(run).busy_share; });
  if (std::ranges::any_of(busy, [](double share) { return std::isnan(share); })) return;
  double sum = 0;
  for (const double share : busy) sum += share;
  metrics[kBusy] = sum / static_cast<double>(busy.size());
  metrics[std::string(kBusy) + "_values"] = busy;
}

void add_times_of_kind(Json& metrics, const Series& series, const std::string& run, const std::string& kind, std::uint64_t seed) {
  const auto speed = [&](const RunTimes& times) { return times.decode_tokens_per_s_of.at(kind); };
  add_timing(metrics, kDecode, values_of(series, [&](const auto& round) { return speed(round.at(run)); }), seed);
  add_ratio(metrics, kDecodeRatio, series, run, speed);
}

}  // namespace patchbay
