#include "experiment/records.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiment/record_set.h"
#include "experiment/sha256.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
constexpr const char* kRecords = "records.jsonl";
constexpr const char* kExperiment = "experiment.json";
constexpr const char* kLock = ".lock";

/// A line that is no record: of results, or of a file that never held any.
Error no_record(const std::string& path, std::size_t number, const std::string& line, const Json& json) {
  constexpr const char* kAllowed = "a folder that `patchbay run` wrote, or its records.jsonl";
  if (number > 1 || fs::path(path).filename() == kRecords)
    return {fmt::format("{}:{}", escaped(path, 300), number), "is no record", "one JSON object in each line, as `patchbay run` wrote it", "remove the line"};
  const auto what = line.starts_with("GGUF") ? "is a GGUF model" : json.is_discarded() ? fmt::format("begins '{}'", escaped(line, 24)) : "is JSON, but no record";
  return {escaped(path, 300), "holds no results: it " + what, kAllowed, "give one of these"};
}

std::vector<Json> parse_records(const std::string& path) {
  std::vector<Json> records;
  for (const auto& line : whole_lines(path)) {
    auto record = Json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("hash") || !record["hash"].is_string()) throw no_record(path, records.size() + 1, line, record);
    records.push_back(std::move(record));
  }
  return records;
}

/// The experiment whose results lie in the folder, its name at least. @throws Error when they are nobody's.
Json owner_of(const fs::path& folder) {
  const auto file = folder / kExperiment;
  if (!fs::exists(file) && fs::exists(folder / kRecords))
    throw Error(folder.string(), fmt::format("the folder holds records, but not the {} that says whose", kExperiment), "a new or empty folder",
                "put the file back (patchbay report reads the records without it), or give another --out");
  if (!fs::exists(file)) throw Error(folder.string(), "the folder holds other files", "a new or empty folder", "give another --out");
  const auto json = Json::parse(read_whole_file(file.string()), nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) throw Error(file.string(), "is no experiment of patchbay");
  return json;
}

/// "seed: 1 there, 0 here; ...": what two experiments' files say otherwise of how they are measured; "" for nothing.
std::string changes(const Json& there, const Json& here) {
  constexpr std::size_t kMost = 8, kLongest = 80;
  std::vector<std::string> lines;
  for (const auto& [path, before, now] : differences(there, here))
    if (path != "note" && path != "out") lines.push_back(fmt::format("{}: {} there, {} here", escaped(path, kLongest), escaped(before, kLongest), escaped(now, kLongest)));
  if (lines.size() > kMost) lines.resize(kMost), lines.emplace_back("...");
  return fmt::format("{}", fmt::join(lines, "; "));
}

/// A folder of this experiment that --resume was not given for.
Error held_already(const std::string& path, const Json& owner, const Json& yaml) {
  const auto other = owner.contains("yaml") && yaml.is_object() ? changes(owner["yaml"], yaml) : "";
  if (other.empty()) return {path, "the folder holds results of this experiment already", {}, "add --resume to go on, or give another --out"};
  return {path, "the folder holds results of this experiment with other settings: " + other, {},
          "give another --out to keep both apart (with --resume, runs that both have are kept, and reports show those of the new settings)"};
}

/// The lock and what a kill left of the very first file are not results.
bool holds_results(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name != kLock && !name.starts_with(std::string(kExperiment) + ".part")) return true;
  }
  return false;
}

/// What a kill left of files that were being written beside their places; the lock says that nobody is writing now.
void remove_halves(const fs::path& folder) {
  std::vector<fs::path> halves;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto ending = entry.path().extension().string();  // .part and the writer's process id
    if (ending.starts_with(".part") && ending.find_first_not_of("0123456789", 5) == std::string::npos) halves.push_back(entry.path());
  }
  for (const auto& half : halves) fs::remove(half);
}

}  // namespace

RecordFolder::RecordFolder(const std::string& path, const std::string& experiment, bool resume, const Json& yaml) : path_(path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code || !fs::is_directory(path)) throw Error(path, "cannot be made a folder: " + (code ? code.message() : "a file is in its place"));
  const auto lock = fs::path(path) / kLock;
  if (holds_results(path) && !fs::exists(lock)) owner_of(path);  // a folder that is not ours gets no lock file either
  lock_.emplace(lock.string());
  if (holds_results(path)) {
    const auto owner = owner_of(path);
    const auto name = owner["name"].get<std::string>();
    if (name != experiment) throw Error(path, "the folder holds the results of another experiment: " + escaped(name, 200), {}, "give another --out");
    if (!resume) throw held_already(path, owner, yaml);
  } else {
    write_experiment(Json::object({{"name", experiment}}).dump());  // from here on the folder has an owner
  }
  fs::create_directories(fs::path(path) / "scores");
  remove_halves(path);
  remove_halves(fs::path(path) / "scores");
  load();
}

void RecordFolder::load() {
  const auto file = (fs::path(path_) / kRecords).string();
  if (!fs::exists(file)) return;
  for (auto& record : parse_records(file)) {
    const auto hash = record["hash"].get<std::string>();
    by_hash_[hash] = std::move(record);
  }
  cut_torn_line(file);
}

std::string RecordFolder::scores_path(const std::string& hash, const std::string& ending) const {
  return (fs::path(path_) / "scores" / (hash + ending)).string();
}

std::optional<Json> RecordFolder::find(const std::string& hash) const {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? std::nullopt : std::optional<Json>(found->second);
}

std::optional<Json> RecordFolder::newest(const Json& config, bool noise) const {
  const Json* found = nullptr;
  const auto started = [](const Json& record) { return record.value("environment", Json::object()).value("started", ""); };
  for (const auto& [hash, record] : by_hash_)
    if (record.value("config", Json()) == config && record.value("noise", false) == noise && (!found || started(record) > started(*found))) found = &record;
  return found ? std::optional<Json>(*found) : std::nullopt;
}

std::string RecordFolder::timings_path() const { return (fs::path(path_) / "timings.jsonl").string(); }

void RecordFolder::add(const Json& record) {
  append_line((fs::path(path_) / kRecords).string(), record.dump());
  by_hash_[record.at("hash").get<std::string>()] = record;
}

void RecordFolder::write_experiment(const std::string& json) const {
  write_file_atomically((fs::path(path_) / kExperiment).string(), json + "\n");
}

std::vector<Json> read_records(const std::string& path) {
  return parse_records(fs::is_directory(path) ? (fs::path(path) / kRecords).string() : path);
}

std::string identity_hash(const nlohmann::json& identity) { return sha256(identity.dump()).substr(0, 16); }

}  // namespace patchbay
