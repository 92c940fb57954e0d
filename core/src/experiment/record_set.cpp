#include "experiment/record_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "experiment/comparisons.h"
#include "experiment/run_reference.h"
#include "experiment/text_table.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

struct Key {
  const char* name;
  bool (Json::*is)() const noexcept;
  const char* type;
  bool required;
};
const Key kKeys[] = {
    {"hash", &Json::is_string, "text", true},       {"run", &Json::is_string, "text", true},
    {"name", &Json::is_string, "text", true},       {"metrics", &Json::is_object, "an object", true},
    {"baseline", &Json::is_boolean, "true or false", false}, {"labels", &Json::is_object, "an object", false},
    {"config", &Json::is_object, "an object", false},        {"environment", &Json::is_object, "an object", false},
    {"evaluation", &Json::is_object, "an object", false},    {"paths", &Json::is_object, "an object", false},
    {"model", &Json::is_string, "text", false},              {"model_sha256", &Json::is_string, "text", false},
    {"noise", &Json::is_boolean, "true or false", false},    {"by_kind", &Json::is_object, "an object", false},
    {"seed", &Json::is_number_unsigned, "a number", false},  {"tasks", &Json::is_array, "a list", false},
};

void check_schema(const Json& record, const std::string& where) {
  const auto schema = record.find("schema");
  if (schema == record.end() || *schema == kRecordSchema) return;
  throw Error(where + ": schema", "is " + escaped(schema->dump(), 40), fmt::format("{}", kRecordSchema), "read it with the patchbay that wrote it");
}

/// A metric is a number, or null where there is none; NAME_ci is its interval, NAME_values the repeats.
void check_metric(const std::string& name, const Json& value, const std::string& where) {
  if (name.ends_with("_ci")) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
      throw Error(where, "is no interval", "[low, high]");
  } else if (name.ends_with("_values")) {
    if (!value.is_array() || !std::ranges::all_of(value, [](const Json& v) { return v.is_number(); })) throw Error(where, "is no list of numbers");
  } else if (!value.is_number() && !value.is_null()) {
    throw Error(where, "is no number");
  }
}

void check_metrics(const Json& metrics, const std::string& where) {
  for (const auto& [name, value] : metrics.items()) check_metric(name, value, fmt::format("{}.{}", where, escaped(name, 60)));
}

std::string records_file(const std::string& folder) {
  return fs::is_directory(folder) ? (fs::path(folder) / "records.jsonl").string() : folder;
}

/// Whether a run is writing into the folder of that lock now.
bool is_locked(const fs::path& lock) {
  const int file = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC);
  const bool locked = file >= 0 && ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file >= 0) ::close(file);
  return locked;
}

std::vector<Json> checked_records(const std::string& folder) {
  const auto file = records_file(folder);
  if (!fs::exists(folder)) throw Error(escaped(folder), "no such file or folder", "a folder that `patchbay run` wrote");
  if (!fs::is_regular_file(file) && is_locked(fs::path(folder) / ".lock"))
    throw Error(escaped(folder), "a run is in progress, and none of its runs is finished yet", {}, "wait for the first, which the running patchbay tells of");
  if (!fs::is_regular_file(file) && fs::exists(fs::path(folder) / "experiment.json"))
    throw Error(escaped(folder), "no run of it is finished", {}, "go on with `patchbay run FILE --out " + escaped(folder) + " --resume`");
  if (!fs::is_regular_file(file)) throw Error(escaped(folder), "holds no records.jsonl", "a folder that `patchbay run` wrote");
  auto records = read_records(file);
  for (std::size_t i = 0; i < records.size(); ++i) check_record(records[i], fmt::format("{}:{}", escaped(file), i + 1));
  if (records.empty()) throw Error(escaped(file), "holds no finished run", "a folder that `patchbay run` wrote");
  return records;
}

/// The runs of experiment.json beside the records, or an empty list: it is a help, not a need.
Json planned_runs(const std::string& folder, RecordSource& source) {
  const auto file = fs::path(records_file(folder)).parent_path() / "experiment.json";
  if (!fs::is_regular_file(file)) return Json::array();
  const auto experiment = Json::parse(read_whole_file(file.string()), nullptr, false);
  if (!experiment.is_object() || !experiment.contains("plan") || !experiment["plan"].is_object()) return Json::array();
  if (experiment.contains("yaml")) source.yaml = experiment["yaml"];
  const auto& plan = experiment["plan"];
  if (plan.contains("note") && plan["note"].is_string()) source.note = plan["note"].get<std::string>();
  return plan.contains("runs") && plan["runs"].is_array() ? plan["runs"] : Json::array();
}

/// A record, and its run's number.
using Numbered = std::pair<std::int64_t, Json>;

/// The newest record of each run, in the plan's order. A plan that knows the hashes of its runs takes no other record: one with
/// the same settings may be of another text, baseline or code.
std::vector<Numbered> current(std::vector<Json> records, const Json& runs, const std::string& folder) {
  std::vector<Numbered> chosen;
  bool hashed = false;
  // The baseline again has the baseline's settings, and is told from it by `noise`.
  const auto newest = [&](const char* key, const Json& run, const Json& value) {
    return std::find_if(records.rbegin(), records.rend(), [&](const Json& r) {
      return r.contains(key) && r[key] == value && r.value("noise", false) == (run.contains("noise") && run["noise"] == true);
    });
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    if (!run.is_object() || !run.contains("config")) continue;
    hashed = hashed || run.contains("hash");
    const auto found = run.contains("hash") ? newest("hash", run, run["hash"]) : newest("config", run, run["config"]);
    if (found == records.rend()) continue;
    auto& record = chosen.emplace_back(static_cast<std::int64_t>(i) + 1, *found).second;
    // A record kept from before a change of the sweep has that sweep's labels.
    if (run.contains("labels") && run["labels"].is_object()) record["labels"] = run["labels"];
    if (run.contains("name") && run["name"].is_string()) record["run"] = run["name"];
  }
  if (!chosen.empty()) return chosen;
  if (hashed) {
    throw Error(escaped(folder), fmt::format("no run of the experiment as it was last run is finished; it holds {} of other settings or code", counted(std::ssize(records), "record")), {},
                "go on with `patchbay run FILE --out " + escaped(folder) + " --resume`, with the settings that are wanted");
  }
  for (auto& record : records)
    if (&*newest("run", record, record["run"]) == &record) chosen.emplace_back(std::ssize(chosen) + 1, record);
  return chosen;
}

/// What stands at a dotted path of a configuration; null: nothing.
const Json* config_at(const Json& record, const std::string& path) {
  const Json* at = record.contains("config") ? &record["config"] : nullptr;
  for (std::size_t begin = 0; at && begin != std::string::npos;) {
    const auto dot = path.find('.', begin);
    const auto key = path.substr(begin, dot == std::string::npos ? dot : dot - begin);
    at = at->is_object() && at->contains(key) ? &at->at(key) : nullptr;
    begin = dot == std::string::npos ? dot : dot + 1;
  }
  return at;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "rtn int_grouped bits=4 group_size=64": a setting in few words, as tables of a sweep show it.
std::string short_setting(const Json& value) {
  if (!value.is_object()) return text_of(value);
  std::string words;
  for (const auto& [key, entry] : value.items())
    words += (words.empty() ? "" : " ") + (key == "type" || entry.is_object() ? short_setting(entry) : key + "=" + text_of(entry));
  return words;
}

/// The label of a record that has none for a setting: the one that another record has for the same value; else the value, a technique by
/// its type; what hangs below a technique without it is "-".
std::string label_from_config(const Json& record, const std::string& path, const std::vector<Json>& all) {
  const auto* value = config_at(record, path);
  if (!value) return "-";
  if (!value->is_object()) return text_of(*value);
  if (value->size() == 1 && value->contains("type")) return text_of(value->at("type"));
  for (const auto& other : all) {
    const auto labels = other.value("labels", Json::object());
    if (const auto* theirs = labels.contains(path) ? config_at(other, path) : nullptr; theirs && *theirs == *value) return text_of(labels[path]);
  }
  return short_setting(*value);
}

std::string where_from(const RecordSet& set, std::size_t i, const std::string& column) {
  const auto& record = set.records[i];
  if (column == "experiment") return record["name"].get<std::string>();
  if (column == "folder") return set.sources[set.source_of[i]].folder;
  const auto environment = record.value("environment", Json::object());
  return environment.contains("host") ? text_of(environment["host"]) : "?";
}

/// Which columns tell the sources apart: names of experiments and hosts where these do, else the folders.
std::vector<std::string> source_columns(const RecordSet& set) {
  std::vector<std::string> columns;
  if (set.sources.size() < 2) return columns;
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t s = 0; s < set.sources.size(); ++s) {
    const auto first = static_cast<std::size_t>(std::ranges::find(set.source_of, s) - set.source_of.begin());
    seen.emplace(where_from(set, first, "experiment"), where_from(set, first, "host"));
  }
  const auto differ = [&](const std::string& column) {
    for (std::size_t i = 1; i < set.records.size(); ++i)
      if (where_from(set, i, column) != where_from(set, 0, column)) return true;
    return false;
  };
  for (const char* column : {"experiment", "host"})
    if (differ(column)) columns.emplace_back(column);
  if (seen.size() < set.sources.size()) columns.emplace_back("folder");
  return columns;
}

void flatten(const Json& tree, const std::string& path, std::vector<std::pair<std::string, std::string>>& leaves) {
  if (!tree.is_object() || tree.empty()) {
    leaves.emplace_back(path, text_of(tree));
    return;
  }
  for (const auto& [key, value] : tree.items()) flatten(value, path.empty() ? key : path + "." + key, leaves);
}

/// The baseline, or the only run there is.
std::size_t default_run(const RecordSet& set, const std::string& folder) {
  const auto is_baseline = [](const Json& record) { return record.value("baseline", false); };
  const auto found = std::ranges::find_if(set.records, is_baseline);
  if (found != set.records.end()) return static_cast<std::size_t>(found - set.records.begin());
  if (set.records.size() == 1) return 0;
  throw Error(escaped(folder), "its baseline is not finished, so a run must be named", "FOLDER:RUN", "patchbay report shows which there are");
}

}  // namespace

void check_record(const Json& record, const std::string& where) {
  if (!record.is_object()) throw Error(where, "is no record");
  check_schema(record, where);
  for (const auto& key : kKeys) {
    const auto found = record.find(key.name);
    if (found == record.end() && !key.required) continue;
    if (found == record.end()) throw Error(fmt::format("{}: {}", where, key.name), "missing key", key.type, "remove the line");
    if (!((*found).*key.is)()) throw Error(fmt::format("{}: {}", where, key.name), "wrong type", key.type, "remove the line");
  }
  check_metrics(record["metrics"], where + ": metrics");
  const auto by_kind = record.value("by_kind", Json::object());  // named: items() does not keep it alive
  for (const auto& [kind, metrics] : by_kind.items()) {
    const auto place = fmt::format("{}: by_kind.{}", where, escaped(kind, 60));
    if (!metrics.is_object()) throw Error(place, "wrong type", "an object", "remove the line");
    check_metrics(metrics, place);
  }
}

RecordSet read_record_set(std::span<const std::string> folders) {
  RecordSet set;
  std::set<std::string> seen;
  for (const auto& folder : folders) {
    auto records = checked_records(folder);
    if (!seen.insert(fs::canonical(records_file(folder)).string()).second) throw Error(escaped(folder), "is given twice");
    RecordSource source{folder, {}, {}, 0, 0};
    const auto runs = planned_runs(folder, source);
    source.planned = static_cast<std::int64_t>(runs.size());
    const auto all = records.size();
    auto chosen = current(std::move(records), runs, folder);
    source.left_out = static_cast<std::int64_t>(all - chosen.size());
    set.source_of.insert(set.source_of.end(), chosen.size(), set.sources.size());
    for (auto& [number, record] : chosen) {
      set.numbers.push_back(number);
      set.records.push_back(std::move(record));
    }
    set.sources.push_back(std::move(source));
  }
  return set;
}

RecordSet read_report_set(std::span<const std::string> folders) {
  auto set = read_record_set(folders);
  add_adjusted_p(set.records);
  return set;
}

RecordSet by_kind(const RecordSet& set) {
  std::vector<std::string> kinds;
  for (const auto& record : set.records) {
    const auto figures = record.value("by_kind", Json::object());
    for (const auto& [kind, metrics] : figures.items())
      if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  if (kinds.size() < 2)
    throw Error("report by kind", "no figures of two kinds of prompts or more", {}, "run the tasks generation or throughput with such evaluation.prompts");
  RecordSet split{set.sources, {}, {}, {}};
  for (std::size_t s = 0; s < set.sources.size(); ++s)
    for (const auto& kind : kinds)
      for (std::size_t i = 0; i < set.records.size(); ++i) {
        auto record = set.records[i];
        if (set.source_of[i] != s || !record.contains("by_kind") || !record["by_kind"].contains(kind)) continue;
        auto metrics = record["by_kind"][kind];
        if (record["metrics"].contains("busy_share")) metrics["busy_share"] = record["metrics"]["busy_share"];  // of the whole visit
        record["metrics"] = metrics;
        record["hash"] = record["hash"].get<std::string>() + " " + kind;  // each kind is a comparison of its own
        Json labels = {{"prompts", kind}};
        labels.update(record.value("labels", Json::object()));
        record["labels"] = labels;
        split.records.push_back(std::move(record));
        split.source_of.push_back(s);
        split.numbers.push_back(set.numbers[i]);
      }
  add_adjusted_p(split.records);
  return split;
}

std::vector<Json> merged_records(const RecordSet& set) {
  auto records = set.records;
  const auto columns = source_columns(set);
  std::vector<std::string> settings;
  for (const auto& record : records) {
    const auto labels = record.value("labels", Json::object());  // named: items() does not keep it alive
    for (const auto& [name, value] : labels.items())
      if (std::ranges::find(settings, name) == settings.end()) settings.push_back(name);
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto own = records[i].value("labels", Json::object());
    Json labels = Json::object();
    for (const auto& column : columns) labels[column] = where_from(set, i, column);
    for (const auto& name : settings) labels[name] = own.contains(name) ? own[name] : Json(label_from_config(set.records[i], name, set.records));
    records[i]["labels"] = labels;
  }
  return records;
}

std::vector<NamedRun> named_runs(const RecordSet& set) {
  std::vector<NamedRun> runs;
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    const auto& record = set.records[i];
    NamedRun run{set.numbers[i], text_of(record["run"]), text_of(record["hash"]), {}, record.value("noise", false)};
    const auto labels = record.value("labels", Json::object());  // named: items() does not keep it alive
    for (const auto& [column, value] : labels.items()) run.labels.emplace_back(column, text_of(value));
    runs.push_back(std::move(run));
  }
  return runs;
}

FoundRecord find_record(const std::string& reference) {
  // A folder's name may hold colons, and so may a run's: the longest folder that is there wins.
  for (auto end = reference.size(); end != std::string::npos && end > 0; end = reference.rfind(':', end - 1)) {
    const auto folder = reference.substr(0, end);
    if (!fs::exists(folder)) continue;
    const std::string folders[] = {folder};
    const auto set = read_record_set(folders);
    const auto wanted = end < reference.size() ? reference.substr(end + 1) : "";
    return {set.records[wanted.empty() ? default_run(set, folder) : find_run(wanted, named_runs(set), escaped(reference, 200))], folder};
  }
  throw Error(escaped(reference, 200), "no such folder", "FOLDER or FOLDER:RUN", fmt::format("RUN is {}", kRunForms));
}

std::vector<std::pair<std::string, std::string>> flattened(const Json& tree) {
  std::vector<std::pair<std::string, std::string>> leaves;
  if (!tree.is_object() || !tree.empty()) flatten(tree, "", leaves);
  return leaves;
}

std::vector<Difference> differences(const Json& first, const Json& second) {
  std::vector<Difference> found;
  const auto left = flattened(first), right = flattened(second);
  const auto value_in = [](const auto& leaves, const std::string& path) {
    const auto at = std::ranges::find(leaves, path, &std::pair<std::string, std::string>::first);
    return at == leaves.end() ? std::string("-") : at->second;
  };
  for (const auto& [path, value] : left)
    if (const auto other = value_in(right, path); other != value) found.push_back({path, value, other});
  for (const auto& [path, value] : right)
    if (value_in(left, path) == "-" && value != "-") found.push_back({path, "-", value});
  return found;
}

}  // namespace patchbay
