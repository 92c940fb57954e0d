/// @file json_keys.h
/// A map of a JSON file, its keys typed and named in messages.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "patchbay/error.h"
#include "utf8.h"

namespace patchbay {

class JsonKeys {
 public:
  JsonKeys(const nlohmann::json& map, std::string where) : map_(map), where_(std::move(where)) {
    if (!map.is_object()) throw Error(where_, "is not a map");
  }
  [[noreturn]] void fail(std::string_view key, std::string problem, std::string allowed = {}) const {
    throw Error(where_ + ": " + escaped(key), escaped(problem), std::move(allowed));  // both may quote the file
  }
  /// Null where the key is missing or null.
  const nlohmann::json* find(std::string_view key) const {
    const auto found = map_.find(key);
    return found == map_.end() || found->is_null() ? nullptr : &*found;
  }
  const nlohmann::json& at(std::string_view key) const {
    const nlohmann::json* value = find(key);
    if (!value) fail(key, "missing key");
    return *value;
  }
  std::int64_t count(std::string_view key, std::int64_t largest = std::int64_t{1} << 30) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_integer() || value < 1 || value > largest)
      fail(key, "is " + value.dump(), "a whole number, 1 to " + std::to_string(largest));
    return value.get<std::int64_t>();
  }
  std::int64_t count_or(std::string_view key, std::int64_t otherwise, std::int64_t largest = std::int64_t{1} << 30) const {
    return find(key) ? count(key, largest) : otherwise;
  }
  double positive(std::string_view key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
      fail(key, "is " + value.dump(), "a number above 0");
    return value.get<double>();
  }
  double positive_or(std::string_view key, double otherwise) const { return find(key) ? positive(key) : otherwise; }
  bool boolean_or(std::string_view key, bool otherwise) const {
    const nlohmann::json* value = find(key);
    if (value && !value->is_boolean()) fail(key, "is " + value->dump(), "true or false");
    return value ? value->get<bool>() : otherwise;
  }
  std::string text(std::string_view key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) fail(key, "is " + value.dump(), "a text");
    return value.get<std::string>();
  }
  const nlohmann::json& map() const { return map_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& map_;
  std::string where_;
};

}  // namespace patchbay
