// The report as CSV (RFC 4180), for spreadsheets and data frames: all digits, one row per run.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/against.h"
#include "experiment/record_set.h"
#include "experiment/report.h"

namespace patchbay {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? "\"\"" : std::string(1, letter);
  return out + "\"";
}

std::string field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return quoted(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& entry : value) list += (list.empty() ? "" : " ") + entry.dump();
  return list;
}

/// Keys of an object of all records, in the order in which they are met.
std::vector<std::string> keys_of(const std::vector<Json>& records, const char* object) {
  std::vector<std::string> names;
  for (const auto& record : records)
    if (const auto found = record.find(object); found != record.end())
      for (const auto& [name, value] : found->items())
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

void add_line(std::string& csv, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) csv += (i ? "," : "") + fields[i];
  csv += "\r\n";
}

Json entry(const Json& object, const std::string& name) { return object.contains(name) ? object[name] : Json(); }

}  // namespace

std::string report_csv(const RecordSet& set) {
  const auto labels = keys_of(set.records, "labels"), metrics = keys_of(set.records, "metrics");
  std::vector<std::string> header = {kCsvBeginning};
  for (const auto& name : labels) header.push_back(quoted("label." + name));
  for (const auto& name : metrics) {
    if (!name.ends_with("_ci")) {
      header.push_back(quoted(name));
      continue;
    }
    const auto base = name.substr(0, name.size() - 3);
    header.push_back(quoted(base + "_low"));
    header.push_back(quoted(base + "_high"));
  }
  const auto emulated = [](const Json& record) { return entry(record.value("environment", Json::object()), "emulated"); };
  const bool any_emulated = std::ranges::any_of(set.records, [&](const Json& record) { return !emulated(record).is_null(); });
  if (any_emulated) header.push_back("emulated");  // the device whose speeds are none of a GPU's
  const bool any_against = is_against(set.records);
  if (any_against) header.emplace_back("against");  // the run that against_NAME compares with
  std::string csv;
  add_line(csv, header);
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    const auto& record = set.records[i];
    std::vector<std::string> row = {field(record["name"]), quoted(set.sources[set.source_of[i]].folder), field(record["run"]),
                                    field(record["hash"]), record.value("baseline", false) ? "true" : "false",
                                    record.value("noise", false) ? "true" : "false"};
    for (const auto& name : labels) row.push_back(field(entry(record.value("labels", Json::object()), name)));
    for (const auto& name : metrics) {
      const auto value = entry(record["metrics"], name);
      if (!name.ends_with("_ci")) {
        row.push_back(field(value));
        continue;
      }
      for (const std::size_t end : {0, 1}) row.push_back(value.is_array() ? field(value[end]) : "");
    }
    if (any_emulated) row.push_back(field(emulated(record)));
    if (any_against) row.push_back(field(record["against"]["run"]));
    add_line(csv, row);
  }
  return csv;
}

}  // namespace patchbay
