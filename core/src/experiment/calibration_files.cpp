// A calibration as JSON: one file per machine in the user's cache folder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/calibration.h"
#include "experiment/environment.h"
#include "experiment/sha256.h"
#include "files.h"
#include "resources.h"

namespace patchbay {
namespace {

constexpr int kSchema = 1;

struct Figure {
  const char* name;
  Spread ThreadLimits::*value;
};
constexpr Figure kFigures[] = {{"memory_read_bytes_per_s", &ThreadLimits::memory_read_bytes_per_s},
                               {"memory_triad_bytes_per_s", &ThreadLimits::memory_triad_bytes_per_s},
                               {"cache_read_bytes_per_s", &ThreadLimits::cache_read_bytes_per_s},
                               {"fp32_flops_per_s", &ThreadLimits::fp32_flops_per_s},
                               {"int8_ops_per_s", &ThreadLimits::int8_ops_per_s}};

Json limits_json(const ThreadLimits& limits) {
  Json json = {{"threads", limits.threads}};
  for (const auto& [name, value] : kFigures) {
    const Spread& spread = limits.*value;
    json[name] = {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
  }
  return json;
}

Json share_json(double share) { return std::isfinite(share) ? Json(share) : Json(); }

const char* kRemedy = "measure again: patchbay calibrate";

Spread read_spread(const Json& json, const std::string& where) {
  const auto number = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0; };
  const Spread spread{number("median"), number("low"), number("high")};
  if (!(spread.low > 0 && spread.low <= spread.median && spread.median <= spread.high && std::isfinite(spread.high)))
    throw Error(where, "is no positive figure with its spread", "0 < low <= median <= high", kRemedy);
  return spread;
}

ThreadLimits read_limits(const Json& json, const std::string& where) {
  ThreadLimits limits;
  if (!json.is_object() || !json.contains("threads") || !json["threads"].is_number_integer() || json["threads"] < 1)
    throw Error(where, "names no number of threads", "1 or more", kRemedy);
  limits.threads = json["threads"].get<int>();
  for (const auto& [name, value] : kFigures) limits.*value = read_spread(json.value(name, Json()), where + ": " + name);
  return limits;
}

}  // namespace

Json calibration_json(const Calibration& c) {
  Json json = {{"schema", kSchema}, {"host", c.host}, {"cpu", c.cpu}, {"date", c.date}, {"repeats", c.repeats}, {"busy_share", share_json(c.busy_share)},
               {"cache_bytes", c.cache_bytes}, {"array_bytes", c.array_bytes}, {"fp32_path", c.fp32_path}, {"int8_path", c.int8_path},
               {"by_threads", Json::array()}};
  for (const auto& limits : c.by_threads) json["by_threads"].push_back(limits_json(limits));
  return json;
}

Calibration read_calibration(const std::string& path) {
  const auto json = Json::parse(read_whole_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kSchema) throw Error(path, "is no calibration of this version", "", kRemedy);
  Calibration c;
  try {
    c.host = json.at("host").get<std::string>();
    c.cpu = json.at("cpu").get<std::string>();
    c.date = json.at("date").get<std::string>();
    c.busy_share = json.at("busy_share").is_null() ? std::nan("") : json.at("busy_share").get<double>();
    c.fp32_path = json.at("fp32_path").get<std::string>();
    c.int8_path = json.at("int8_path").get<std::string>();
    c.repeats = json.at("repeats").get<int>();
    c.cache_bytes = json.at("cache_bytes").get<std::int64_t>();
    c.array_bytes = json.at("array_bytes").get<std::int64_t>();
    for (const auto& limits : json.at("by_threads")) c.by_threads.push_back(read_limits(limits, path + fmt::format(": by_threads[{}]", c.by_threads.size())));
  } catch (const Json::exception& error) {
    throw Error(path, std::string("is no calibration: ") + error.what(), "", kRemedy);
  }
  return c;
}

std::string calibration_path() {
  const auto folder = user_cache_folder();
  if (folder.empty()) return "";
  const auto where = environment();
  return folder / "calibration" / (sha256(where.host + "\n" + where.cpu).substr(0, 16) + ".json");
}

Json calibration_summary(const Calibration& c, int threads) {
  const auto* limits = c.at(used_threads(threads));
  if (!limits) throw Error("calibration", fmt::format("no figures for {} threads", threads));
  auto json = limits_json(*limits);
  json.update({{"date", c.date}, {"repeats", c.repeats}, {"busy_share", share_json(c.busy_share)}, {"cache_bytes", c.cache_bytes}, {"fp32_path", c.fp32_path}, {"int8_path", c.int8_path}});
  return json;
}

}  // namespace patchbay
