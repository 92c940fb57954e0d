/// @file records.h
/// The folder of an experiment's results: one JSON line per finished run, named by what it was computed from.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files.h"

namespace patchbay {

using Json = nlohmann::ordered_json;

/// Layout: experiment.json (the resolved experiment), records.jsonl, timings.jsonl, scores/HASH.bin (per token), .lock.
/// A record is added by one write and flushed: a kill at any moment loses no finished record. One process at a time.
class PATCHBAY_API RecordFolder {
 public:
  /// Makes the folder, or with `resume` goes on in it. @throws Error for a folder that holds something else, or that holds this
  /// experiment while `resume` is not given (naming what of its `yaml` is otherwise there), or that another process has.
  RecordFolder(const std::string& path, const std::string& experiment, bool resume, const Json& yaml = {});

  const std::string& path() const { return path_; }
  std::string scores_path(const std::string& hash, const std::string& ending) const;
  std::string timings_path() const;
  /// The finished record of that hash.
  std::optional<Json> find(const std::string& hash) const;
  /// The record of that configuration that was begun last, whatever its hash.
  std::optional<Json> newest(const Json& config, bool noise) const;
  /// @throws Error when the disk is full; what was there before stays whole.
  void add(const Json& record);
  void write_experiment(const std::string& json) const;

 private:
  void load();

  std::string path_;
  std::optional<FileLock> lock_;
  std::map<std::string, Json> by_hash_;
};

/// Reads the records of a results folder, or of a records.jsonl; a torn last line is left out. @throws Error.
PATCHBAY_API std::vector<Json> read_records(const std::string& path);

/// Names what a result was computed from: SHA-256 of the JSON with its keys sorted, 16 digits.
PATCHBAY_API std::string identity_hash(const nlohmann::json& identity);

}  // namespace patchbay
